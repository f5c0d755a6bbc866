//! The same for many, a few at a time.

use anyhow::{Result, bail};

/// At a time.
const FEW: usize = 8;

/// Does something for each.
///
/// # Errors
/// The first failure, after all have been tried that are not behind one.
pub fn each(names: &[String], work: impl Fn(&str) -> Result<()> + Sync) -> Result<()> {
    let some = names.len().div_ceil(FEW).max(1);
    std::thread::scope(|scope| {
        let tasks: Vec<_> = names
            .chunks(some)
            .map(|names| scope.spawn(|| names.iter().try_for_each(|name| work(name))))
            .collect();
        let ends: Vec<_> = tasks.into_iter().map(|task| task.join()).collect();
        ends.into_iter().try_for_each(|end| match end {
            Ok(done) => done,
            Err(_) => bail!("a task has failed in an unforeseen way, as it says itself"),
        })
    })
}
