//! What a gateway holds of the machine: it must not grow.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openshell_e2e::gateway::Gateway;
use openshell_e2e::{host, wait};

/// So much more memory is none.
const FLAT: f64 = 1.05;
/// Looks, a second apart: what is only held for a moment is in none of the smallest.
const LOOKS: u32 = 5;

#[derive(Clone, Copy, Debug)]
pub(super) struct Holdings {
    descriptors: usize,
    threads: usize,
    /// KiB.
    memory: u64,
}

impl Holdings {
    pub(super) fn of(gateway: &Gateway) -> Result<Self> {
        let pid = gateway.pid().context("the gateway does not run")?;
        let mut least: Option<Self> = None;
        for _ in 0..LOOKS {
            wait::pause(Duration::from_secs(1));
            let now = Self::now(pid)?;
            least = Some(least.map_or(now, |least| Self {
                descriptors: least.descriptors.min(now.descriptors),
                threads: least.threads.min(now.threads),
                memory: least.memory.min(now.memory),
            }));
        }
        least.context("nobody looked")
    }

    fn now(pid: u32) -> Result<Self> {
        let count = |what: &str| -> Result<usize> {
            Ok(std::fs::read_dir(format!("/proc/{pid}/{what}"))?.count())
        };
        Ok(Self {
            descriptors: count("fd")?,
            threads: count("task")?,
            memory: host::memory(pid)?.resident_kib,
        })
    }

    /// What kinds of open files there are, for whoever has to find one that leaks.
    pub(super) fn kinds(gateway: &Gateway) -> Result<String> {
        let pid = gateway.pid().context("the gateway does not run")?;
        let mut kinds = std::collections::BTreeMap::<String, usize>::new();
        for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))?.flatten() {
            let target = std::fs::read_link(entry.path()).unwrap_or_default();
            let target = target.display().to_string();
            let kind = target.split(":[").next().unwrap_or_default().to_owned();
            *kinds.entry(kind).or_default() += 1;
        }
        let told = kinds.iter().map(|(kind, count)| format!("{count} {kind}"));
        Ok(told.collect::<Vec<_>>().join(", "))
    }

    /// Each of them, and whether it is what it was before.
    pub(super) fn compare(&self, before: &Self) -> Vec<(&'static str, Result<()>)> {
        let same = |now: usize, then: usize| {
            if now > then {
                bail!("{now} after {then}");
            }
            Ok(())
        };
        let grown = self.memory as f64 / before.memory as f64;
        let memory = if grown > FLAT {
            Err(anyhow::anyhow!("{grown:.3} times as much"))
        } else {
            Ok(())
        };
        vec![
            (
                "no more open files",
                same(self.descriptors, before.descriptors),
            ),
            ("no more threads", same(self.threads, before.threads)),
            ("no more memory", memory),
        ]
    }
}

impl fmt::Display for Holdings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} open files, {} threads, {:.1} MiB",
            self.descriptors,
            self.threads,
            self.memory as f64 / 1024.0
        )
    }
}
