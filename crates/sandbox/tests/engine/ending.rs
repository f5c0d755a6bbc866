//! How it all ends.

use std::time::{Duration, Instant};

use openshell_core::bootstrap::NO_BOOTSTRAP_EXIT;
use openshell_proto::link::main_state::State;
use openshell_proto::link::{ProcessSpec, StopRequest};

use crate::support::{Sandbox, Setup, docker, eventually, sh};

#[tokio::test]
async fn a_main_that_ignores_term_takes_the_grace_and_no_more() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh(
        "trap '' TERM; echo ready > /sandbox/r; while :; do sleep 1000; done",
    ))
    .await;
    eventually("it ignores", || {
        sandbox.workspace("r").exists().then_some(())
    })
    .await;
    let begun = Instant::now();
    let stopped = link.client.stop(StopRequest { grace_millis: 700 }).await;
    let took = begun.elapsed();
    let main = stopped.unwrap().into_inner().main.unwrap();
    let Some(State::Exited(exit)) = main.state else {
        panic!("it still runs")
    };
    assert_eq!((exit.code, exit.signal), (137, 9));
    assert!(took >= Duration::from_millis(700), "{took:?}");
    assert!(took < Duration::from_millis(1200), "{took:?}");
    assert_eq!(sandbox.exit_code().await, 137);
}

#[tokio::test]
async fn a_main_that_obeys_is_gone_at_once_with_its_own_status() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh(
        "trap 'exit 5' TERM; echo r > /sandbox/r; while :; do usleep 10000; done",
    ))
    .await;
    eventually("it runs", || sandbox.workspace("r").exists().then_some(())).await;
    let begun = Instant::now();
    link.client
        .stop(StopRequest {
            grace_millis: 10_000,
        })
        .await
        .unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert_eq!(sandbox.exit_code().await, 5);
    let exit = link.heard.lock().unwrap().exit.clone().unwrap();
    assert_eq!((exit.code, exit.told), (5, true));
}

#[tokio::test]
async fn an_interactive_shell_does_not_make_a_stop_slow() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(ProcessSpec {
        tty: true,
        login_shell: true,
        ..ProcessSpec::default()
    })
    .await;
    let mut main = link.attach_main(true, true).await;
    main.until("$").await;
    let spec = ProcessSpec {
        tty: true,
        login_shell: true,
        ..ProcessSpec::default()
    };
    let mut second = link.exec(spec).await;
    second.until("$").await;
    let begun = Instant::now();
    link.client
        .stop(StopRequest {
            grace_millis: 10_000,
        })
        .await
        .unwrap();
    assert!(
        begun.elapsed() < Duration::from_secs(2),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test]
async fn the_engines_stop_ends_it_with_the_grace_of_the_bootstrap() {
    let sandbox = Sandbox::start_with(Setup {
        grace: Some(Duration::from_millis(500)),
        ..Setup::default()
    });
    let mut link = sandbox.attach("a").await;
    link.start_main(sh(
        "trap '' TERM; echo r > /sandbox/r; while :; do sleep 1000; done",
    ))
    .await;
    eventually("it runs", || sandbox.workspace("r").exists().then_some(())).await;
    let begun = Instant::now();
    docker(&["stop", "-t", "20", &sandbox.id]);
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(sandbox.exit_code().await, 137);
}

#[tokio::test]
async fn the_end_of_main_is_reported_and_ends_the_rest() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let begun = Instant::now();
    link.start_main(sh("sleep 1000 & exit 42")).await;
    assert_eq!(sandbox.exit_code().await, 42);
    assert!(begun.elapsed() < Duration::from_secs(15));
    let exit = link.heard.lock().unwrap().exit.clone().unwrap();
    assert_eq!((exit.code, exit.signal, exit.told), (42, 0, false));
}

#[tokio::test]
async fn a_main_whose_watcher_is_announced_is_there_for_it() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start(sh("echo short; exit 4"), true).await;
    eventually("it has ended", || link.heard.lock().unwrap().exit.clone()).await;
    // Longer than an end that is not awaited takes.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let done = link.attach_main(true, true).await.finish().await;
    assert_eq!((done.out(), done.exit.code), ("short".into(), 4));
    assert_eq!(sandbox.exit_code().await, 4);
}

#[tokio::test]
async fn nobody_is_waited_for_who_was_not_announced_or_cannot_come() {
    let ended = |sandbox: &Sandbox| {
        let times = docker(&["inspect", "-f", "{{.State.FinishedAt}}", &sandbox.id]);
        times.parse::<jiff::Timestamp>().unwrap()
    };
    let main_ended = |link: &crate::support::Link| {
        let heard = link.heard.lock().unwrap();
        let time = heard.exit.as_ref().unwrap().time.unwrap();
        jiff::Timestamp::new(time.seconds, time.nanos).unwrap()
    };
    let after = |sandbox: &Sandbox, link: &crate::support::Link| {
        let span = ended(sandbox).duration_since(main_ended(link));
        Duration::try_from(span).unwrap_or_default()
    };
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh("exit 4")).await;
    assert_eq!(sandbox.exit_code().await, 4);
    let detached = after(&sandbox, &link);
    assert!(detached < Duration::from_millis(900), "{detached:?}");

    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start(sh("exit 5"), true).await;
    eventually("it has ended", || link.heard.lock().unwrap().exit.clone()).await;
    link.cut();
    assert_eq!(sandbox.exit_code().await, 5);
    let lost = after(&sandbox, &link);
    assert!(lost < Duration::from_secs(8), "{lost:?}");

    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start(sh("exit 6"), true).await;
    eventually("it has ended", || link.heard.lock().unwrap().exit.clone()).await;
    let stop = StopRequest {
        grace_millis: 10_000,
    };
    // It may be gone before it can answer.
    let _answer = link.client.stop(stop).await;
    assert_eq!(sandbox.exit_code().await, 6);
    let stopped = after(&sandbox, &link);
    assert!(stopped < Duration::from_secs(5), "{stopped:?}");
}

#[tokio::test]
async fn an_end_that_nobody_acknowledges_is_waited_for_within_a_bound() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    *link.acknowledge.lock().unwrap() = false;
    let begun = Instant::now();
    link.start_main(sh("exit 3")).await;
    assert_eq!(sandbox.exit_code().await, 3);
    let took = begun.elapsed();
    assert!(took > Duration::from_secs(1), "{took:?}");
    // Two seconds and what a busy engine takes to say so.
    assert!(took < Duration::from_secs(15), "{took:?}");
}

#[tokio::test]
async fn a_supervisor_that_never_comes_back_ends_the_run() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh("while :; do sleep 1; done")).await;
    link.cut();
    // Connections are accepted, so that each is refused for want of an attach.
    let begun = Instant::now();
    let accepted = async {
        loop {
            let _held = sandbox.accept().await;
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    };
    let code = tokio::select! {
        () = accepted => unreachable!("it only accepts"),
        code = async {
            loop {
                let state = docker(&["inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", &sandbox.id]);
                if let Some(code) = state.strip_prefix("exited ") {
                    break code.to_owned();
                }
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        } => code,
    };
    let took = begun.elapsed();
    assert_eq!(code, "143");
    assert!(
        took > Duration::from_secs(29) && took < Duration::from_secs(40),
        "{took:?}"
    );
}

#[tokio::test]
async fn without_a_bootstrap_it_says_why_and_ends() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh("exit 0")).await;
    sandbox.exit_code().await;
    // Its bootstrap was for one use.
    docker(&["start", &sandbox.id]);
    let code = i32::from(NO_BOOTSTRAP_EXIT);
    assert_eq!(sandbox.exit_code().await, code);
    let logs = std::process::Command::new("docker")
        .args(["logs", &sandbox.id])
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&logs.stderr).into_owned();
    assert!(said.contains("no bootstrap was handed over"), "{said}");
}
