//! The explorer: breadth first, so that the first counter-example is a shortest one; over all cores.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::time::{Duration, Instant};

use super::calm;
use super::canon::fingerprint;
use super::wiring::Violation;

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

/// What one thing that happens leads to.
pub(super) type Next<S> = Option<(<S as System>::Action, <S as System>::World)>;

/// What can be explored.
pub(super) trait System: Sync {
    /// A situation, in the one form that equal ones share.
    type World: Clone + Hash + Send + Sync;
    /// One thing that happens.
    type Action: Copy + Send + Sync;

    /// Every action that is possible.
    fn enabled(&self, world: &Self::World) -> Vec<Self::Action>;
    /// What a world is after an action.
    fn apply(&self, world: &Self::World, action: Self::Action) -> Result<Self::World, Violation>;
    /// Beyond the bounds: not followed.
    fn beyond(&self, world: &Self::World) -> bool;
    /// What can be said of a situation by itself; asked once for each fingerprint of what it depends on.
    fn judge(&self, world: &Self::World, judged: &mut Seen) -> Result<(), Violation>;
    /// What happens next when nothing goes wrong any more; nothing if it rests.
    fn calm(&self, world: &Self::World) -> Result<Next<Self>, (Self::Action, Violation)>
    where
        Self: Sized;
    /// Whether what has come to rest is as it should be.
    fn rests(&self, world: &Self::World) -> Result<(), Violation>;
}

/// How a world was reached.
#[derive(Clone, Copy)]
struct Origin<A> {
    parent: u32,
    action: Option<A>,
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
#[derive(Clone, Debug)]
pub(super) struct Explored<A> {
    pub(super) states: usize,
    pub(super) transitions: usize,
    pub(super) depth: usize,
    /// Worlds beyond the bounds, not followed.
    pub(super) cut: usize,
    pub(super) time: Duration,
    pub(super) violation: Option<Found<A>>,
}

/// A counter-example.
#[derive(Clone, Debug)]
pub(super) struct Found<A> {
    pub(super) violation: Violation,
    /// From which of the first worlds.
    pub(super) root: usize,
    /// What leads to it.
    pub(super) trace: Vec<A>,
    /// So many of its last actions are calm ones.
    pub(super) calm: usize,
}

struct Explorer<'a, S: System> {
    system: &'a S,
    limits: Limits,
    seen: Seen,
    origins: Vec<Origin<S::Action>>,
    /// Situations that are known to come to rest as they should.
    calm: Seen,
    /// What was judged by itself.
    judged: Seen,
    result: Explored<S::Action>,
}

/// What one world leads to.
struct Expansion<S: System> {
    next: Vec<(u64, Origin<S::Action>, S::World)>,
    transitions: usize,
    cut: usize,
    violation: Option<(u32, Option<S::Action>, Violation)>,
}

/// Explores everything from some first worlds.
pub(super) fn explore<S: System>(
    system: &S,
    first: &[S::World],
    limits: Limits,
) -> Explored<S::Action> {
    let started = Instant::now();
    let mut explorer = Explorer {
        system,
        limits,
        seen: Seen::default(),
        origins: Vec::new(),
        calm: Seen::default(),
        judged: Seen::default(),
        result: Explored {
            states: 0,
            transitions: 0,
            depth: 0,
            cut: 0,
            time: Duration::ZERO,
            violation: None,
        },
    };
    explorer.levels(first);
    explorer.result.states = explorer.origins.len();
    explorer.result.time = started.elapsed();
    explorer.result
}

impl<S: System> Explorer<'_, S> {
    /// Level by level: what is said of a depth holds of all that can be reached within it.
    fn levels(&mut self, first: &[S::World]) {
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

    fn batch(&mut self, batch: &[(u32, S::World)], next: &mut Vec<(u32, S::World)>) {
        let size = batch.len().div_ceil(self.limits.threads.max(1)).max(1);
        let (system, seen) = (self.system, &self.seen);
        let expansions: Vec<Expansion<S>> = std::thread::scope(|scope| {
            let parts: Vec<_> = batch
                .chunks(size)
                .map(|part| scope.spawn(move || expand(system, seen, part)))
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

    /// What can be said of a situation by itself, and of where it comes to rest.
    fn judge(&mut self, index: u32, world: &S::World) -> bool {
        if let Err(violation) = self.system.judge(world, &mut self.judged) {
            let (root, trace) = self.trace(index);
            self.report(violation, root, trace, 0);
            return false;
        }
        if !(index as usize).is_multiple_of(self.limits.liveness.max(1)) {
            return true;
        }
        if let Err((violation, calm)) = calm::settle(self.system, world, &mut self.calm) {
            let (root, mut trace) = self.trace(index);
            trace.extend(&calm);
            self.report(violation, root, trace, calm.len());
            return false;
        }
        true
    }

    fn report(&mut self, violation: Violation, root: usize, trace: Vec<S::Action>, calm: usize) {
        self.result.violation = Some(Found {
            violation,
            root,
            trace,
            calm,
        });
    }

    /// From which first world, by what.
    fn trace(&self, index: u32) -> (usize, Vec<S::Action>) {
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

fn expand<S: System>(system: &S, seen: &Seen, part: &[(u32, S::World)]) -> Expansion<S> {
    let mut expansion = Expansion {
        next: Vec::new(),
        transitions: 0,
        cut: 0,
        violation: None,
    };
    let mut own = Seen::default();
    for (parent, world) in part {
        for action in system.enabled(world) {
            expansion.transitions += 1;
            let after = match system.apply(world, action) {
                Ok(after) => after,
                Err(violation) => {
                    expansion.violation = Some((*parent, Some(action), violation));
                    return expansion;
                }
            };
            if system.beyond(&after) {
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

#[cfg(test)]
mod tests;
