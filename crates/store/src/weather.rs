//! What a simulation does to the calls of an inline store: they fail, or their caller never hears of them again.

use std::future::Future;
use std::pin::Pin;

use crate::StoreError;

/// A boxed future of a [`Weather`].
pub type Passing<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Stands before and behind every call of a store in memory.
pub trait Weather: Send + Sync + 'static {
    /// Before the call; an error fails it, and nothing is done.
    fn before(&self, writes: bool) -> Passing<'_, Result<(), StoreError>>;
    /// Behind it: it is done, and its caller has not heard of it yet.
    fn after(&self, writes: bool) -> Passing<'_, ()>;
}
