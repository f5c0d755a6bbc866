//! The store of one gateway process: its calls fail while the disk is full, and the process may die around each.

use std::sync::{Arc, OnceLock};

use openshell_store::{Passing, StoreError};
use tokio_util::sync::CancellationToken;

use super::world::World;

/// Around every call of one gateway's store.
pub(crate) struct Weather {
    world: Arc<World>,
    killed: Arc<OnceLock<CancellationToken>>,
}

impl Weather {
    pub(crate) fn new(world: &Arc<World>, killed: &Arc<OnceLock<CancellationToken>>) -> Self {
        Self {
            world: Arc::clone(world),
            killed: Arc::clone(killed),
        }
    }

    /// Never comes back if the process is dead, or dies here.
    async fn survive(&self, what: &str) {
        let Some(killed) = self.killed.get() else {
            return;
        };
        if !killed.is_cancelled() && self.world.trouble(self.world.plan.odds.dies_at_store / 4) {
            self.world
                .timeline
                .say("gateway", || format!("is killed {what} a write"));
            killed.cancel();
        }
        if killed.is_cancelled() {
            std::future::pending::<()>().await;
        }
    }
}

impl openshell_store::Weather for Weather {
    fn before(&self, writes: bool) -> Passing<'_, Result<(), StoreError>> {
        Box::pin(async move {
            if writes {
                self.survive("before").await;
            }
            let down = self
                .world
                .store_down
                .load(std::sync::atomic::Ordering::Relaxed);
            if writes && (down || self.world.trouble(self.world.plan.odds.store_fails)) {
                self.world.oracle.store_failed();
                return Err(StoreError::Failed(
                    "the disk is full; free some space".to_owned(),
                ));
            }
            Ok(())
        })
    }

    fn after(&self, writes: bool) -> Passing<'_, ()> {
        Box::pin(async move {
            if writes {
                self.survive("behind").await;
            }
        })
    }
}
