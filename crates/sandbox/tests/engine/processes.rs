//! Main and execs: what runs, what it reads and writes, how it ends.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use openshell_proto::link::main_state::State;
use openshell_proto::link::process_input::Input;
use openshell_proto::link::process_output::Output;
use openshell_proto::link::{ProcessSpec, StartMainRequest, StdinClosed, WindowSize};
use tonic::Code;

use crate::support::{Sandbox, argv, eventually, sh};

#[tokio::test]
async fn an_exec_gives_its_output_its_code_and_its_signal() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let done = link.sh("echo out; echo err >&2; exit 7").await;
    assert_eq!(
        (done.out(), done.err(), done.exit.code),
        ("out".into(), "err".into(), 7)
    );
    let killed = link.sh("kill -9 $$").await;
    assert_eq!((killed.exit.code, killed.exit.signal), (137, 9));
    let missing = link.exec(argv(&["no-such-thing"])).await.finish().await;
    assert_eq!(missing.exit.code, 127);
    assert!(
        missing.exit.error.contains("command not found"),
        "{missing:?}"
    );
    let plain = link.exec(argv(&["/etc/hostname"])).await.finish().await;
    assert_eq!(plain.exit.code, 126);
    let nothing = link
        .exec(argv(&[]))
        .await
        .output
        .message()
        .await
        .unwrap_err();
    assert_eq!(nothing.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn the_environment_directory_and_quoting_are_as_asked() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let done = link.sh("pwd; echo $HOME $PATH; umask; ulimit -c").await;
    assert_eq!(done.out(), "/sandbox\n/sandbox /bin\n0022\n0");
    let spec = ProcessSpec {
        workdir: "/tmp".to_owned(),
        environment: BTreeMap::from([("A".to_owned(), "x  y".to_owned())]),
        login_shell: true,
        ..argv(&["sh", "-c", "pwd; echo \"$A\" \"$1\"", "-", "a  'b' $c;*"])
    };
    let done = link.exec(spec).await.finish().await;
    assert_eq!(done.out(), "/tmp\nx  y a  'b' $c;*");
}

#[tokio::test]
async fn fifty_megabytes_through_and_back_are_the_same_and_take_little_memory() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let mut running = link.exec(argv(&["cat"])).await;
    let input = running.input.take().unwrap();
    const PIECE: usize = 48 * 1024;
    const PIECES: usize = 1067;
    let piece = |n: usize| -> Bytes {
        (0..PIECE)
            .map(|i| (i * 31 + n * 17) as u8)
            .collect::<Vec<u8>>()
            .into()
    };
    let send = async {
        for n in 0..PIECES {
            let message = crate::support::input(Input::Stdin(piece(n)));
            input.send(message).await.unwrap();
        }
        drop(input);
    };
    let receive = async {
        let mut at = 0;
        loop {
            match running.next().await {
                Some(Output::Stdout(bytes)) => {
                    for byte in bytes {
                        let (n, i) = (at / PIECE, at % PIECE);
                        assert_eq!(byte, (i * 31 + n * 17) as u8, "at {at}");
                        at += 1;
                    }
                }
                Some(Output::Exit(exit)) => return (at, exit.code),
                Some(_) => {}
                None => panic!("ended after {at}"),
            }
        }
    };
    let ((), (read, code)) = tokio::join!(send, receive);
    assert_eq!((read, code), (PIECE * PIECES, 0));
    // Bounded whatever flows through: a debug build, so the bound is generous.
    let peak = link.sh("grep VmHWM /proc/1/status").await.out();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 32 * 1024, "{peak}");
}

#[tokio::test]
async fn a_terminal_has_a_size_a_job_and_an_end() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let spec = ProcessSpec {
        tty: true,
        cols: 97,
        rows: 31,
        login_shell: true,
        ..ProcessSpec::default()
    };
    let mut shell = link.exec(spec).await;
    shell
        .say(Input::Stdin(
            "stty size; tty; : > /dev/tty && echo 1$((1+1))3\n".into(),
        ))
        .await;
    let seen = shell.until("123").await;
    assert!(
        seen.contains("31 97") && seen.contains("/dev/pts/"),
        "{seen}"
    );
    let resize = WindowSize {
        cols: 120,
        rows: 50,
    };
    shell.say(Input::Resize(resize)).await;
    shell.say(Input::Stdin("stty size\n".into())).await;
    shell.until("50 120").await;
    // Interrupts what runs, not the shell.
    shell.say(Input::Stdin("sleep 1000\n".into())).await;
    eventually("sleep runs", || {
        let top = crate::support::docker(&["top", &sandbox.id]);
        top.contains("sleep 1000").then_some(())
    })
    .await;
    shell.say(Input::Stdin("\x03".into())).await;
    shell
        .say(Input::Stdin("echo 4$((2+3))6; exit 9\n".into()))
        .await;
    shell.until("456").await;
    assert_eq!(shell.finish().await.exit.code, 9);
}

#[tokio::test]
async fn input_has_a_real_end_and_a_caller_that_goes_takes_its_process_with_it() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let mut cat = link.exec(argv(&["cat"])).await;
    cat.say(Input::Stdin("x".into())).await;
    cat.say(Input::StdinClosed(StdinClosed {})).await;
    assert_eq!(cat.finish().await.out(), "x");
    let sleeper = link.exec(argv(&["sleep", "1234"])).await;
    let there = || crate::support::docker(&["top", &sandbox.id]).contains("sleep 1234");
    eventually("it runs", || there().then_some(())).await;
    drop(sleeper);
    eventually("it has ended", || (!there()).then_some(())).await;
}

#[tokio::test]
async fn output_that_nobody_reads_holds_up_its_own_process_only() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let mut unread = Vec::new();
    for _ in 0..5 {
        unread.push(link.exec(argv(&["cat", "/dev/zero"])).await);
    }
    let mut stuck = link.exec(argv(&["sleep", "1000"])).await;
    let full = stuck.input.take().unwrap();
    let piece = || crate::support::input(Input::Stdin(vec![0; 48 * 1024].into()));
    // Until nothing more fits anywhere on the way.
    let quiet = Duration::from_millis(300);
    while let Ok(sent) = tokio::time::timeout(quiet, full.send(piece())).await {
        sent.unwrap();
    }
    let begun = std::time::Instant::now();
    assert_eq!(link.sh("echo through").await.out(), "through");
    assert!(begun.elapsed() < Duration::from_secs(2));
    let peak = link.sh("grep VmHWM /proc/1/status").await.out();
    let kib: u64 = peak.split_whitespace().nth(1).unwrap().parse().unwrap();
    assert!(kib < 32 * 1024, "{peak}");
}

#[tokio::test]
async fn a_background_process_does_not_hold_an_exec_open() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let done = link.sh("sleep 500 & echo done").await;
    assert_eq!((done.out(), done.exit.code), ("done".into(), 0));
    // It is an orphan now; the many that follow are reaped.
    link.sh("for i in $(seq 50); do (true &); done").await;
    eventually("no zombies", || {
        let top = crate::support::docker(&["top", &sandbox.id, "-o", "pid,stat,args"]);
        let zombie = |line: &str| {
            line.split_whitespace()
                .nth(1)
                .is_some_and(|s| s.starts_with('Z'))
        };
        (!top.lines().any(zombie)).then_some(())
    })
    .await;
    assert!(crate::support::docker(&["top", &sandbox.id]).contains("sleep 500"));
}

#[tokio::test]
async fn main_is_started_once_and_a_late_attach_sees_what_it_said() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let spec = sh("echo boot >> /sandbox/boots; echo hello; read line; echo got $line; exit 17");
    link.start_main(spec.clone()).await;
    link.start_main(spec.clone()).await;
    let other = StartMainRequest {
        process: Some(sh("true")),
        ..StartMainRequest::default()
    };
    let refused = link.client.start_main(other).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);

    let mut first = link.attach_main(true, true).await;
    let Some(Output::Started(started)) = first.next().await else {
        panic!("not started")
    };
    assert!(started.stdin_owner && started.pid > 1);
    first.until("hello").await;
    let mut second = link.attach_main(true, true).await;
    let Some(Output::Started(reader)) = second.next().await else {
        panic!("not started")
    };
    assert!(!reader.stdin_owner);
    second.until("hello").await;
    second.say(Input::Stdin("not mine\n".into())).await;
    first.say(Input::Stdin("mine\n".into())).await;
    for watcher in [&mut first, &mut second] {
        let done = watcher.finish().await;
        assert_eq!((done.out(), done.exit.code), ("got mine".into(), 17));
    }
    assert_eq!(sandbox.exit_code().await, 17);
    let boots = std::fs::read_to_string(sandbox.workspace("boots")).unwrap();
    assert_eq!(boots, "boot\n");
}

#[tokio::test]
async fn a_main_that_cannot_begin_ends_with_the_reason() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let request = StartMainRequest {
        process: Some(argv(&["/no/such/main"])),
        ..StartMainRequest::default()
    };
    let state = link.client.start_main(request).await.unwrap().into_inner();
    let Some(State::Exited(exit)) = state.main.unwrap().state else {
        panic!("it cannot run")
    };
    assert_eq!(exit.code, 127);
    assert!(exit.error.contains("/no/such/main"), "{exit:?}");
    assert_eq!(sandbox.exit_code().await, 127);
}

#[tokio::test]
async fn the_reply_buffer_gives_the_last_mebibyte() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    link.start_main(sh(
        "head -c 3000000 /dev/zero; echo; echo written > /sandbox/w; sleep 1000",
    ))
    .await;
    eventually("it has written", || {
        sandbox.workspace("w").exists().then_some(())
    })
    .await;
    let mut late = link.attach_main(false, true).await;
    let mut read = 0;
    let quiet = Duration::from_millis(500);
    while let Ok(message) = tokio::time::timeout(quiet, late.next()).await {
        if let Some(Output::Stdout(bytes)) = message {
            read += bytes.len();
        }
    }
    assert!(read <= 1024 * 1024 && read > 900 * 1024, "{read}");
}
