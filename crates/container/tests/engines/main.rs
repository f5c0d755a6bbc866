//! The promises of the container driver, kept on every engine: one set of tests, once on Docker and once on Podman.
#![allow(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod support;

/// Makes a test of each of these functions for each engine.
macro_rules! on_every_engine {
    ($($name:ident),+ $(,)?) => {
        mod docker {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                Box::pin(super::$name(crate::support::On::Docker)).await;
            })+
        }
        mod podman {
            $(#[tokio::test(flavor = "multi_thread")]
            async fn $name() {
                Box::pin(super::$name(crate::support::On::Podman)).await;
            })+
        }
    };
}

mod faults;
mod life;
mod outages;
mod posture;
