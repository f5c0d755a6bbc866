//! A value that many wait for. Those who wait are woken in the order in which they came, so that a simulation is the
//! same whenever it is run; Tokio's own watch channel wakes in an order that it draws for itself.

use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

/// The value, and those who wait for another.
#[derive(Debug, Default)]
pub struct Board<T> {
    value: Mutex<(u64, T)>,
    moved: Notify,
}

impl<T> Board<T> {
    /// With a first value.
    pub fn new(value: T) -> Self {
        Self {
            value: Mutex::new((0, value)),
            moved: Notify::new(),
        }
    }

    /// Looks at the value and at how often it was changed.
    pub fn look<R>(&self, look: impl FnOnce(u64, &T) -> R) -> R {
        let value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
        look(value.0, &value.1)
    }

    /// Changes it.
    pub fn change(&self, change: impl FnOnce(&mut T)) {
        {
            let mut value = self.value.lock().unwrap_or_else(PoisonError::into_inner);
            change(&mut value.1);
            value.0 += 1;
        }
        self.moved.notify_waiters();
    }

    /// How often it was changed.
    pub fn version(&self) -> u64 {
        self.look(|version, _| version)
    }

    /// Waits until it is so.
    pub async fn until(&self, mut condition: impl FnMut(&T) -> bool) {
        self.wait(|_, value| condition(value)).await;
    }

    /// Waits until it was changed more often than this.
    pub async fn newer_than(&self, seen: u64) {
        self.wait(|version, _| version > seen).await;
    }

    async fn wait(&self, mut condition: impl FnMut(u64, &T) -> bool) {
        loop {
            let moved = self.moved.notified();
            tokio::pin!(moved);
            // In the queue before the look, so that nothing falls in between.
            moved.as_mut().enable();
            if self.look(&mut condition) {
                return;
            }
            moved.await;
        }
    }
}

impl<T: Clone> Board<T> {
    /// The value.
    pub fn get(&self) -> T {
        self.look(|_, value| value.clone())
    }
}
