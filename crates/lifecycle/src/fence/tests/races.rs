//! Many hands at once: whatever order their commands and the engine's troubles come in, it ends as last asked.

use std::time::Duration;

use openshell_core::{Phase, RestartPolicy, SandboxId};

use super::harness::Harness;
use crate::driver::{DriverError, DriverErrorKind, Role};
use crate::fence::LifecycleFence;
use crate::simulated::{Fault, Method};

/// A small deterministic source of choices.
struct Choices(u64);

impl Choices {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

fn trouble(h: &Harness, choices: &mut Choices, id: SandboxId) {
    let methods = [
        Method::PrepareRun,
        Method::Launch,
        Method::Stop,
        Method::Inspect,
        Method::RemoveSupervisor,
        Method::Wait,
    ];
    let method = methods[usize::try_from(choices.below(6)).expect("small")];
    let away = DriverError::new(DriverErrorKind::Unreachable, "the connection broke");
    let fault = match choices.below(4) {
        0 => Fault::Delay(Duration::from_millis(choices.below(3000))),
        1 => Fault::Fail(away),
        2 => Fault::Lose(away),
        _ => Fault::Panic,
    };
    h.driver.script(method, Some(id), fault);
}

async fn hand(h: &Harness, id: SandboxId, seed: u64) {
    let mut choices = Choices(seed);
    for _ in 0..12 {
        tokio::time::sleep(Duration::from_millis(choices.below(2000))).await;
        // Refusals and repetitions are part of the game.
        match choices.below(8) {
            0 | 1 => drop(h.fence.start(id).await),
            2 | 3 => drop(h.fence.stop(id).await),
            4 => drop(h.fence.restart(id).await),
            5 => h.driver.exit(id, Role::Supervisor, 137, false),
            6 => h.driver.exit(id, Role::Workload, 1, false),
            _ => trouble(h, &mut choices, id),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn l7_many_hands_and_troubles_never_trap_a_sandbox() {
    for seed in 0..20 {
        let h = Harness::new().await;
        let id = h.ready("a", RestartPolicy::OnFailure).await;
        let hands = (0..6).map(|n| hand(&h, id, seed * 100 + n));
        futures_util::future::join_all(hands).await;
        // It may fail once more on a trouble that is still scripted, but it always leads out.
        for _ in 0..20 {
            h.fence.stop(id).await.expect("accepted");
            let rested = h
                .until(id, "at rest", |r| {
                    matches!(r.life.phase, Phase::Stopped | Phase::Error)
                })
                .await;
            if rested.life.phase == Phase::Stopped {
                break;
            }
        }
        assert_eq!(h.record(id).life.phase, Phase::Stopped, "seed {seed}");
        for _ in 0..20 {
            h.fence.start(id).await.expect("accepted");
            let rested = h
                .until(id, "started", |r| {
                    matches!(r.life.phase, Phase::Ready | Phase::Error)
                })
                .await;
            if rested.life.phase == Phase::Ready {
                break;
            }
        }
        assert_eq!(h.record(id).life.phase, Phase::Ready, "seed {seed}");
        h.fence.delete(id).await.expect("accepted");
        h.gone(id).await;
        assert_eq!(h.driver.containers(), 0, "seed {seed}");
    }
}

#[tokio::test(start_paused = true)]
async fn l9_a_gateway_that_is_killed_at_any_moment_takes_everything_up_again() {
    for moment in (0..40).step_by(2) {
        let h = Harness::new().await;
        for method in [Method::PrepareImage, Method::PrepareRun, Method::Launch] {
            h.driver
                .script(method, None, Fault::Delay(Duration::from_millis(10)));
        }
        let id = h
            .create("a", RestartPolicy::Never)
            .await
            .expect("created")
            .meta
            .id;
        tokio::time::sleep(Duration::from_millis(moment)).await;
        h.fence.kill();
        // Its supervisor, if there is one already, speaks to nobody any more.
        h.mute_supervisors();
        let g = h.again(crate::config::FenceConfig::default()).await;
        let ready = g.phase(id, Phase::Ready).await;
        let run = ready.life.run.clone().expect("a run");
        assert_eq!(g.driver.container(id, Role::Workload), run.workload);
        g.until(id, "clean", |r| r.life.retired.is_empty()).await;
        g.eventually("two containers are left", || g.driver.containers() == 2)
            .await;
    }
}
