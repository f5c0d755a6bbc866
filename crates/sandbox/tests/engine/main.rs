//! The runtime for real: in a container without a network, as an ordinary user, with this test as its supervisor.
//! Needs an engine that shares this machine's file system, its client `docker` (or `OPENSHELL_TEST_DOCKER`), and
//! the image `openshell-dev/busybox:1` (or `OPENSHELL_TEST_IMAGE`); fails without.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod boundary;
mod ending;
mod link;
mod processes;
mod size;
mod support;
