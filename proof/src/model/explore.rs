//! The explorer: breadth first, so that the first counter-example is a shortest one; over all cores.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use super::action::Action;
use super::apply::apply;
use super::calm;
use super::canon::fingerprint;
use super::enabled::enabled;
use super::rules;
use super::wiring::{Setup, Violation};
use super::world::World;

/// Worlds expanded before what they lead to is sorted in.
const BATCH: usize = 8192;

/// What is hashed already.
#[derive(Default)]
pub(super) struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _bytes: &[u8]) {}

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

/// Situations, by their fingerprints.
pub(super) type Seen = HashSet<u64, BuildHasherDefault<Identity>>;

/// How a world was reached.
#[derive(Clone, Copy)]
struct Origin {
    parent: u32,
    action: Option<Action>,
}

/// How far to go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// So many things happen one after the other.
    pub(super) depth: usize,
    pub(super) threads: usize,
    /// Liveness is checked from every so many-th situation.
    pub(super) liveness: usize,
}

/// What was explored.
#[derive(Clone, Debug, Default)]
pub(super) struct Explored {
    pub(super) states: usize,
    pub(super) transitions: usize,
    pub(super) depth: usize,
    /// Worlds beyond the bounds, not followed.
    pub(super) cut: usize,
    pub(super) time: Duration,
    pub(super) violation: Option<Found>,
}

/// A counter-example.
#[derive(Clone, Debug)]
pub(super) struct Found {
    pub(super) violation: Violation,
    /// From which of the first worlds.
    pub(super) root: usize,
    /// What leads to it.
    pub(super) trace: Vec<Action>,
    /// So many of its last actions are calm ones.
    pub(super) calm: usize,
}

struct Explorer<'a> {
    setup: &'a Setup,
    limits: Limits,
    seen: Seen,
    origins: Vec<Origin>,
    /// Situations that are known to come to rest as they should.
    calm: Seen,
    /// States of the machine that were judged by themselves.
    judged: Seen,
    result: Explored,
}

/// What one world leads to.
struct Expansion {
    next: Vec<(u64, Origin, World)>,
    transitions: usize,
    cut: usize,
    violation: Option<(u32, Option<Action>, Violation)>,
}

/// Explores everything from some first worlds.
pub(super) fn explore(setup: &Setup, first: &[World], limits: Limits) -> Explored {
    let started = Instant::now();
    let mut explorer = Explorer {
        setup,
        limits,
        seen: Seen::default(),
        origins: Vec::new(),
        calm: Seen::default(),
        judged: Seen::default(),
        result: Explored::default(),
    };
    explorer.levels(first);
    explorer.result.states = explorer.origins.len();
    explorer.result.time = started.elapsed();
    explorer.result
}

impl Explorer<'_> {
    /// Level by level: what is said of a depth holds of all that can be reached within it.
    fn levels(&mut self, first: &[World]) {
        let mut level = Vec::new();
        for (parent, world) in (0..).zip(first) {
            self.origins.push(Origin {
                parent,
                action: None,
            });
            self.seen.insert(fingerprint(world));
            level.push((parent, world.clone()));
        }
        while !level.is_empty() {
            if self.result.depth >= self.limits.depth {
                return;
            }
            let mut next = Vec::new();
            for batch in level.chunks(BATCH) {
                self.batch(batch, &mut next);
                if self.result.violation.is_some() {
                    return;
                }
            }
            level = next;
            self.result.depth += usize::from(!level.is_empty());
        }
    }

    fn batch(&mut self, batch: &[(u32, World)], next: &mut Vec<(u32, World)>) {
        let size = batch.len().div_ceil(self.limits.threads.max(1)).max(1);
        let (setup, seen) = (self.setup, &self.seen);
        let expansions: Vec<Expansion> = std::thread::scope(|scope| {
            let parts: Vec<_> = batch
                .chunks(size)
                .map(|part| scope.spawn(move || expand(setup, seen, part)))
                .collect();
            // A thread that panics has found a defect of the checker, not of the product.
            parts
                .into_iter()
                .map(|part| {
                    part.join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
                })
                .collect()
        });
        for expansion in expansions {
            self.result.transitions += expansion.transitions;
            self.result.cut += expansion.cut;
            if let Some((parent, action, violation)) = expansion.violation {
                let (root, mut trace) = self.trace(parent);
                trace.extend(action);
                self.report(violation, root, trace, 0);
                return;
            }
            for (hash, origin, world) in expansion.next {
                if !self.seen.insert(hash) {
                    continue;
                }
                let index = u32::try_from(self.origins.len()).unwrap_or(u32::MAX);
                self.origins.push(origin);
                if !self.judge(index, &world) {
                    return;
                }
                next.push((index, world));
            }
        }
    }

    /// What can be said of a situation by itself.
    fn judge(&mut self, index: u32, world: &World) -> bool {
        if let Some(cell) = world.cell()
            && self.judged.insert(cell.machine.hash)
            && let Err(violation) = rules::state(self.setup, &cell.machine.state, world.now)
        {
            let (root, trace) = self.trace(index);
            self.report(violation, root, trace, 0);
            return false;
        }
        if !(index as usize).is_multiple_of(self.limits.liveness.max(1)) {
            return true;
        }
        if let Err((violation, calm)) = calm::settle(self.setup, world, &mut self.calm) {
            let (root, mut trace) = self.trace(index);
            trace.extend(&calm);
            self.report(violation, root, trace, calm.len());
            return false;
        }
        true
    }

    fn report(&mut self, violation: Violation, root: usize, trace: Vec<Action>, calm: usize) {
        self.result.violation = Some(Found {
            violation,
            root,
            trace,
            calm,
        });
    }

    /// From which first world, by what.
    fn trace(&self, index: u32) -> (usize, Vec<Action>) {
        let mut trace = Vec::new();
        let mut at = index;
        while let Some(Origin {
            parent,
            action: Some(action),
        }) = self.origins.get(at as usize)
        {
            trace.push(*action);
            at = *parent;
        }
        trace.reverse();
        (at as usize, trace)
    }
}

fn expand(setup: &Setup, seen: &Seen, part: &[(u32, World)]) -> Expansion {
    let mut expansion = Expansion {
        next: Vec::new(),
        transitions: 0,
        cut: 0,
        violation: None,
    };
    let mut own = Seen::default();
    for (parent, world) in part {
        for action in enabled(setup, world) {
            expansion.transitions += 1;
            let after = match apply(setup, world, action) {
                Ok(after) => after,
                Err(violation) => {
                    expansion.violation = Some((*parent, Some(action), violation));
                    return expansion;
                }
            };
            if after.present() > setup.runs {
                expansion.cut += 1;
                continue;
            }
            let hash = fingerprint(&after);
            if seen.contains(&hash) || !own.insert(hash) {
                continue;
            }
            let origin = Origin {
                parent: *parent,
                action: Some(action),
            };
            expansion.next.push((hash, origin, after));
        }
    }
    expansion
}
