//! What becomes of one call on its way to the engine and back.

use std::time::Duration;

use openshell_core::SandboxId;
use openshell_lifecycle::driver::{DriverError, DriverErrorKind};
use openshell_lifecycle::simulated::Method;

use super::blows::OWN;
use super::world::World;

/// How a call goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// There and back.
    Through,
    /// It never reaches the engine.
    Unreached,
    /// It is done, and nobody hears of it.
    Unheard,
    /// The engine says no, and does nothing.
    Refused(DriverErrorKind),
    /// It never reaches the engine, and never answers.
    Hangs,
    /// The driver panics before or behind it.
    Panics {
        /// Whether it was done.
        done: bool,
    },
}

/// One call's fate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Fate {
    pub(crate) there: Duration,
    pub(crate) way: Way,
    pub(crate) back: Duration,
}

impl Fate {
    pub(crate) fn draw(world: &World, method: Method, sandbox: Option<SandboxId>) -> Self {
        let chance = &world.chance;
        let odds = &world.plan.odds;
        let reads = matches!(method, Method::Inspect | Method::Info | Method::ListOwned);
        let leg = |per_mille| {
            if world.trouble(per_mille) {
                chance.spread(20, 20_000)
            } else {
                chance.millis(0, 4)
            }
        };
        let (there, back) = (leg(odds.slow), leg(odds.slow));
        let way = if world.is_hung(sandbox) || world.trouble(odds.hangs) {
            Way::Hangs
        } else if method == Method::PrepareImage && world.engine.identity().0 != OWN {
            // Fresh storage holds no image, and cannot fetch one.
            Way::Refused(DriverErrorKind::ImagePull)
        } else if world.trouble(odds.unreached) {
            Way::Unreached
        } else if world.trouble(odds.unheard) {
            Way::Unheard
        } else if !reads && world.trouble(odds.refused) {
            Way::Refused(refusal(world, method))
        } else if world.trouble(odds.panics) {
            Way::Panics {
                done: chance.per_mille(500),
            }
        } else {
            Way::Through
        };
        Self { there, way, back }
    }
}

fn refusal(world: &World, method: Method) -> DriverErrorKind {
    let kinds: &[DriverErrorKind] = match method {
        Method::PrepareImage => &[DriverErrorKind::ImagePull, DriverErrorKind::ImageUnusable],
        Method::PrepareRun => &[
            DriverErrorKind::Engine,
            DriverErrorKind::NameTaken,
            DriverErrorKind::Invalid,
        ],
        _ => &[DriverErrorKind::Engine],
    };
    world
        .chance
        .pick(kinds)
        .copied()
        .unwrap_or(DriverErrorKind::Engine)
}

/// The connection's own words.
pub(crate) fn broken() -> DriverError {
    DriverError::new(DriverErrorKind::Unreachable, "the connection broke")
}
