//! Equal situations are one, and others are not.

use openshell_core::{Phase, RestartPolicy};
use openshell_lifecycle::FenceConfig;

use super::super::action::{Action, Restore};
use super::super::wiring::Setup;
use super::super::world::{Cell, Gateway, World};
use super::super::{apply::apply, roots};
use super::*;

fn setup() -> Setup {
    Setup {
        policy: RestartPolicy::Never,
        fault: None,
        config: FenceConfig::default(),
        runs: 3,
        luck: 2,
    }
}

/// Calm worlds, and some in which much is under way.
fn worlds() -> Vec<World> {
    let setup = setup();
    let mut worlds = roots(&setup).unwrap();
    let after = |world: &World, action| apply(&setup, world, action).unwrap();
    let away = after(&worlds[2], Action::EngineDown(Restore::Lost));
    let back = after(&after(&away, Action::MonitorLost), Action::EngineUp);
    let asked = after(&back, Action::Connected);
    assert_ne!(asked.looks, [], "nothing is under way");
    worlds.extend([away, back, asked]);
    worlds
}

/// The same, as another path might have left it.
fn changed(world: &World, change: impl Fn(&mut World, &mut State)) -> u64 {
    let mut world = world.clone();
    let Gateway::Up(cell) = world.gateway.clone() else {
        panic!("the gateway is down");
    };
    let mut state = cell.machine.state.clone();
    change(&mut world, &mut state);
    let machine = Arc::new(Machine::new(state));
    world.gateway = Gateway::Up(Cell { machine, ..cell });
    canonical(&mut world);
    fingerprint(&world)
}

#[test]
fn the_canonical_form_is_reached_at_once() {
    for mut world in worlds() {
        let before = fingerprint(&world);
        canonical(&mut world);
        assert_eq!(fingerprint(&world), before);
        assert_eq!(changed(&world, |_, _| {}), before);
    }
}

#[test]
fn the_same_at_other_times_is_the_same() {
    for world in worlds() {
        let later = changed(&world, |world, state| {
            outer_moments(world, &mut |tick| *tick = *tick * 3 + 5);
            moments(state, &mut |time| {
                if let Some(tick) = tick(*time) {
                    *time = moment(tick * 3 + 5);
                }
            });
        });
        assert_eq!(later, fingerprint(&world));
    }
}

#[test]
fn the_same_under_other_serials_is_the_same() {
    for world in worlds() {
        let renumbered = changed(&world, |world, state| {
            let other = |serial: &mut u64| *serial = *serial * 2 + 40;
            world
                .calls
                .iter_mut()
                .for_each(|c| other(&mut c.ticket.serial));
            world.looks.iter_mut().for_each(|l| other(&mut l.serial));
            if let Some(activity) = state.activity.as_mut() {
                other(&mut activity.ticket.serial);
            }
            state.looking.values_mut().for_each(other);
            state.serial = 4000;
        });
        assert_eq!(renumbered, fingerprint(&world));
    }
}

#[test]
fn what_no_decision_depends_on_is_forgotten() {
    for world in worlds() {
        let reworded = changed(&world, |_, state| {
            state.record.life.condition.message = "in other words".to_owned();
            state.record.life.condition.since = at(RECENTLY);
            for due in state.timers.values_mut() {
                *due = at(RECENTLY);
            }
        });
        assert_eq!(reworded, fingerprint(&world));
    }
}

#[test]
fn what_a_decision_depends_on_is_not() {
    for world in worlds() {
        let same = fingerprint(&world);
        let (luck, engine) = (world.luck, world.engine);
        assert_ne!(changed(&world, |w, _| w.luck = luck + 1), same);
        assert_ne!(changed(&world, |w, _| w.engine = !engine), same);
        let phase = |_: &mut World, s: &mut State| s.record.life.phase = Phase::Unknown;
        assert_ne!(changed(&world, phase), same);
        let one_timer = |_: &mut World, s: &mut State| {
            let timer = openshell_lifecycle::machine::Timer::Restart;
            s.timers.insert(timer, at(SOME_TIME));
        };
        assert_ne!(changed(&world, one_timer), same);
    }
}

#[test]
fn the_order_of_what_happened_is_kept() {
    let ready = &worlds()[1];
    let other = changed(ready, |world, _| {
        // The workload is another incarnation than the recorded one.
        if let Some(workload) = world.workload.as_mut() {
            workload.status = Status::Running(40);
        }
    });
    assert_ne!(other, fingerprint(ready));
}
