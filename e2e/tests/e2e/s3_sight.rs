//! S3, what users are told while the engine is away, whatever keeps it: and that nothing is taken for gone meanwhile.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::time::Duration;

use openshell_e2e::relay::{Calls, Fault};
use openshell_e2e::wait;
use rustix::process::Signal;

use crate::s3::phases_since_ready;
use crate::ticks::{TICKING, Ticks, run_on, wait_ticking};
use crate::world::{Half, IDLE, PATIENCE, World, uptime};

/// Every way to ask says that the engine is awaited.
pub(crate) fn everybody_is_told(world: &World) {
    wait::until("/readyz to tell", PATIENCE, || {
        let (code, page) = world.gateway.page("/readyz")?;
        Ok((code == 503 && page.contains("engine")).then_some(()))
    })
    .expect("readiness");
    let (code, _) = world.gateway.page("/healthz").expect("a page");
    assert_eq!(code, 200, "it lives");
    for (words, said) in [
        (
            ["sandbox", "list"].as_slice(),
            ["Unknown", "box"].as_slice(),
        ),
        (&["sandbox", "get", "box"], &["EngineUnreachable", "frozen"]),
        (
            &["sandbox", "events", "box"],
            &["EngineUnreachable", "frozen"],
        ),
        (&["status"], &["Degraded", "engine"]),
        (&["doctor"], &["engine"]),
        (
            &["sandbox", "wait", "box", "--for", "ready", "--timeout", "1"],
            &["EngineUnreachable"],
        ),
    ] {
        let outcome = world.run(words);
        let told = format!("{}{}", outcome.text(), outcome.errors());
        for word in said {
            assert!(
                told.contains(word),
                "{words:?} does not say {word:?}: {told}"
            );
        }
    }
}

/// A world whose gateway's way to the engine is closed while something is done, and opened again.
fn while_closed(world: &World, close: impl FnOnce(), open: impl FnOnce()) {
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    let began = uptime();
    close();
    world.relay().cut(&Calls::all());
    wait::until("the gateway to miss it", PATIENCE, || {
        let message = world.record("box")["message"].clone();
        Ok(message
            .as_str()
            .unwrap_or_default()
            .contains("out of sight")
            .then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
    assert_eq!(world.said("box", "echo on"), "on");
    wait::until("/readyz to tell", PATIENCE, || {
        Ok((world.gateway.page("/readyz")?.0 == 503).then_some(()))
    })
    .expect("readiness");
    open();
    let running = || Ok((world.record("box")["message"] == "running").then_some(()));
    wait::until("it to be observed again", PATIENCE, running)
        .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
    assert_eq!(phases_since_ready(world, "box"), ["Ready"]);
    assert!(Ticks::on_disk(&workspace).longest_pause(began) < crate::ticks::GAP);
}

#[test]
fn s3_e_a_socket_that_goes_away_or_may_not_be_opened_is_an_engine_out_of_sight() {
    let world = World::on_own_engine(true, |settings| settings.bound_by_modes = true);
    world.create("box", &[], TICKING);
    let socket = world.relay().socket().to_owned();
    let away = socket.with_extension("away");
    let mode = |mode| {
        std::fs::set_permissions(&socket, Permissions::from_mode(mode)).expect("a mode");
    };
    while_closed(
        &world,
        || std::fs::rename(&socket, &away).expect("it moves"),
        || std::fs::rename(&away, &socket).expect("it moves"),
    );
    while_closed(&world, || mode(0o0), || mode(0o600));
    assert_eq!(world.record("box")["generation"], 1);
    world.wait_boots("box", 1);
    world.delete("box");
    world.nothing_is_left();
}

#[test]
fn s3_a_an_engine_that_answers_slowly_is_only_slow() {
    let world = World::behind_relay("s3-slow", "");
    world.create("box", &[], TICKING);
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    let began = uptime();
    let slow = world
        .relay()
        .trap(Calls::all(), Fault::Delay(Duration::from_secs(1)));
    world.relay().cut(&Calls::events());
    world.relay().cut(&Calls::waits());
    let waits = Calls::waits().sandbox("box").of(Half::Workload);
    wait::until("a wait", PATIENCE, || {
        Ok((world.relay().under_way(&waits) == 1).then_some(()))
    })
    .expect("it is watched again");
    // Beyond the bound of one question.
    let deaf = world
        .relay()
        .trap(Calls::looks(), Fault::Delay(Duration::from_secs(12)));
    world.relay().cut(&Calls::waits());
    slow.release();
    world.wait_judged("box", "unknown", "", 1);
    deaf.release();
    assert_eq!(phases_since_ready(&world, "box"), ["Ready"]);
    let slow = world
        .relay()
        .trap(Calls::all(), Fault::Delay(Duration::from_millis(300)));
    world.ok(&["sandbox", "stop", "box"]);
    let pause = Ticks::on_disk(&workspace).longest_pause(began);
    assert!(pause < crate::ticks::GAP, "it paused for {pause} s");
    world.ok(&["sandbox", "start", "box"]);
    world.create("other", &[], IDLE);
    world.ok(&["sandbox", "delete", "box", "other"]);
    slow.release();
    world.nothing_is_left();
}

#[test]
fn l18_an_engine_that_comes_back_empty_has_nothing_forgotten() {
    let mut world = World::on_own_engine(true, |_| ());
    world.create("box", &[], TICKING);
    world.create("rests", &[], IDLE);
    world.create("unwanted", &[], IDLE);
    world.ok(&["sandbox", "stop", "rests"]);
    let workspace = world.workspace("box");
    wait_ticking(&workspace);
    let began = uptime();
    world.engine().end_daemon(Signal::KILL).expect("it ends");
    world.engine().start_empty_daemon().expect("another comes");
    let other = "not the one that holds it";
    world.wait_judged("box", "unknown", "", 1);
    wait::until("the gateway to meet it", PATIENCE, || {
        Ok(world.events("box").contains(other).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
    assert_eq!(world.phase("box"), "Ready");
    assert_eq!(world.phase("rests"), "Stopped");
    world.ok(&["sandbox", "delete", "unwanted", "--no-wait"]);
    run_on();
    assert_eq!(world.phase("unwanted"), "Deleting");
    assert_eq!(world.said("box", "echo on"), "on");
    world.engine().end_daemon(Signal::TERM).expect("it ends");
    world
        .engine()
        .start_daemon()
        .expect("the right one is back");
    let running = || Ok((world.record("box")["message"] == "running").then_some(()));
    wait::until("it to be observed again", PATIENCE, running)
        .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("box")));
    assert_eq!(phases_since_ready(&world, "box"), ["Ready"]);
    assert!(Ticks::on_disk(&workspace).longest_pause(began) < crate::ticks::GAP);
    world.wait_boots("box", 1);
    wait::until("the delete", PATIENCE, || {
        let got = world.run(&["sandbox", "get", "unwanted"]);
        Ok((got.code != 0).then_some(()))
    })
    .unwrap_or_else(|error| panic!("{error:#}\n{}", world.events("unwanted")));
    world.ok(&["sandbox", "start", "rests"]);
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}
