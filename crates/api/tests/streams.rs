//! Commands, connections and files of a sandbox through the public API.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers")]

mod support;

use std::time::Duration;

use api::exec_sandbox_event::Payload;
use bytes::Bytes;
use openshell_proto::api::{self, SandboxPhase, tcp_forward_frame};
use openshell_proto::link::{self, process_input, process_output};
use openshell_proto::plus::{self, attach_main_input, exec_input, upload_chunk};
use support::{DEADLINE, Gateway};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Code, Status, Streaming};

fn exec(command: &[&str]) -> api::ExecSandboxRequest {
    api::ExecSandboxRequest {
        sandbox: "a".to_owned(),
        command: command.iter().map(|s| (*s).to_owned()).collect(),
        ..Default::default()
    }
}

#[derive(Debug, Default)]
struct Outcome {
    stdout: Vec<u8>,
    stderr: Vec<u8>,
    code: Option<i32>,
}

async fn collect(mut events: Streaming<api::ExecSandboxEvent>) -> Result<Outcome, Status> {
    let mut out = Outcome::default();
    while let Some(event) = events.message().await? {
        match event.payload.unwrap() {
            Payload::Stdout(o) => out.stdout.extend_from_slice(&o.data),
            Payload::Stderr(o) => out.stderr.extend_from_slice(&o.data),
            Payload::Exit(e) => out.code = Some(e.exit_code),
        }
    }
    Ok(out)
}

async fn run(g: &Gateway, request: api::ExecSandboxRequest) -> Result<Outcome, Status> {
    let events = g.user().exec_sandbox(request).await?.into_inner();
    tokio::time::timeout(DEADLINE, collect(events))
        .await
        .expect("ends in time")
}

#[tokio::test]
async fn exec_carries_stdin_environment_directory_and_exit_codes() {
    let g = Gateway::start().await;
    let request = api::CreateSandboxRequest {
        name: "a".to_owned(),
        spec: Some(api::SandboxSpec {
            environment: [("KEPT", "1"), ("OVER", "1")]
                .map(|(k, v)| (k.into(), v.into()))
                .into(),
            ..Default::default()
        }),
        ..Default::default()
    };
    g.user().create_sandbox(request).await.unwrap();
    g.phase("a", SandboxPhase::Ready).await;

    let data: Vec<u8> = (0..3_000_000_u32).map(|i| (i % 251) as u8).collect();
    let request = api::ExecSandboxRequest {
        stdin: data.clone(),
        ..exec(&["cat"])
    };
    let out = run(&g, request).await.unwrap();
    assert_eq!(out.code, Some(0));
    assert!(out.stdout == data, "{} bytes", out.stdout.len());

    let request = api::ExecSandboxRequest {
        environment: [("OVER".to_owned(), "2".to_owned())].into(),
        workdir: "src".to_owned(),
        no_login_shell: true,
        ..exec(&["env"])
    };
    let out = run(&g, request).await.unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(text, "workdir=/sandbox/src\nlogin=false\nKEPT=1\nOVER=2\n");

    let out = run(&g, exec(&["fail", "17"])).await.unwrap();
    assert_eq!((out.code, out.stderr.len()), (Some(17), 0));
    let out = run(&g, exec(&["nothing"])).await.unwrap();
    assert_eq!(out.code, Some(127));
    assert!(
        String::from_utf8(out.stderr)
            .unwrap()
            .contains("no such program")
    );
}

#[tokio::test]
async fn a_bad_exec_is_refused_before_anything_runs() {
    let g = Gateway::start().await;
    let e = run(&g, exec(&["true"])).await.unwrap_err();
    assert_eq!(e.code(), Code::NotFound);
    g.ready("a").await;
    let negative = prost_types::Duration {
        seconds: -1,
        nanos: 0,
    };
    for (bad, field) in [
        (exec(&[]), "command"),
        (exec(&["", "x"]), "command[0]"),
        (exec(&["x", "\0"]), "command[1]"),
        (
            api::ExecSandboxRequest {
                execution_timeout: Some(negative),
                ..exec(&["x"])
            },
            "execution_timeout",
        ),
        (
            api::ExecSandboxRequest {
                environment: [("a=b".to_owned(), String::new())].into(),
                ..exec(&["x"])
            },
            "environment",
        ),
    ] {
        let e = run(&g, bad).await.unwrap_err();
        assert_eq!(e.code(), Code::InvalidArgument);
        assert!(e.message().starts_with(field), "{}", e.message());
    }
    let stop = api::StopSandboxRequest {
        name: "a".to_owned(),
        ..Default::default()
    };
    g.user().stop_sandbox(stop).await.unwrap();
    g.phase("a", SandboxPhase::Stopped).await;
    let e = run(&g, exec(&["true"])).await.unwrap_err();
    assert_eq!(e.code(), Code::FailedPrecondition);
    assert!(
        e.message().contains("openshell sandbox start a"),
        "{}",
        e.message()
    );
}

#[tokio::test]
async fn an_exec_that_runs_out_of_time_answers_124() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let request = api::ExecSandboxRequest {
        execution_timeout: Some(prost_types::Duration {
            seconds: 0,
            nanos: 50_000_000,
        }),
        ..exec(&["sleep"])
    };
    assert_eq!(run(&g, request).await.unwrap().code, Some(124));
}

#[tokio::test]
async fn an_interactive_exec_ends_with_its_input() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let (input, messages) = mpsc::channel(4);
    let send = |payload| {
        let input = input.clone();
        async move {
            let message = api::ExecSandboxInput {
                payload: Some(payload),
            };
            input.send(message).await.unwrap();
        }
    };
    send(api::exec_sandbox_input::Payload::Start(exec(&["cat"]))).await;
    send(api::exec_sandbox_input::Payload::Resize(Default::default())).await;
    send(api::exec_sandbox_input::Payload::Stdin(Bytes::from_static(
        b"hi",
    )))
    .await;
    let events = g
        .user()
        .exec_sandbox_interactive(ReceiverStream::new(messages))
        .await
        .unwrap();
    drop(input);
    let out = tokio::time::timeout(DEADLINE, collect(events.into_inner()))
        .await
        .unwrap()
        .unwrap();
    assert_eq!((out.code, &*out.stdout), (Some(0), &b"hi"[..]));

    let nothing = tokio_stream::iter([api::ExecSandboxInput::default()]);
    let e = g
        .user()
        .exec_sandbox_interactive(nothing)
        .await
        .unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn our_own_exec_carries_signals_and_attach_speaks_to_main() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let start = plus::ExecOpen {
        sandbox: "a".to_owned(),
        process: Some(link::ProcessSpec {
            argv: vec!["cat".to_owned()],
            ..Default::default()
        }),
        ..Default::default()
    };
    let message = |input| plus::ExecInput { input: Some(input) };
    let signal = |n| {
        message(exec_input::Input::Process(link::ProcessInput {
            input: Some(process_input::Input::Signal(n)),
        }))
    };
    let inputs = [message(exec_input::Input::Start(start.clone())), signal(15)];
    let mut out = g
        .plus()
        .exec(tokio_stream::iter(inputs))
        .await
        .unwrap()
        .into_inner();
    let last = out.message().await.unwrap().unwrap().output.unwrap();
    assert!(matches!(last, process_output::Output::Exit(e) if e.code == 143));

    let inputs = [message(exec_input::Input::Start(start)), signal(999)];
    let mut out = g
        .plus()
        .exec(tokio_stream::iter(inputs))
        .await
        .unwrap()
        .into_inner();
    let e = out.message().await.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);

    let open = plus::AttachMainOpen {
        sandbox: "a".to_owned(),
        ..Default::default()
    };
    let attach = plus::AttachMainInput {
        input: Some(attach_main_input::Input::Start(open)),
    };
    let attached = g
        .plus()
        .attach_main(tokio_stream::iter([attach]))
        .await
        .unwrap();
    let first = attached.into_inner().message().await.unwrap().unwrap();
    assert!(
        matches!(first.output, Some(process_output::Output::Stdout(d)) if d == "main says hi\n")
    );
}

fn open(host: &str, port: u32) -> api::TcpForwardFrame {
    let tcp = api::TcpRelayTarget {
        host: host.to_owned(),
        port,
    };
    api::TcpForwardFrame {
        payload: Some(tcp_forward_frame::Payload::Init(api::TcpForwardInit {
            sandbox: "a".to_owned(),
            target: Some(api::tcp_forward_init::Target::Tcp(tcp)),
            ..Default::default()
        })),
    }
}

#[tokio::test]
async fn a_forward_reaches_loopback_ports_only_and_carries_bytes_both_ways() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let data = Bytes::from(vec![7; 1_000_000]);
    let frames = [
        open("127.0.0.1", 8080),
        api::TcpForwardFrame {
            payload: Some(tcp_forward_frame::Payload::Data(data.clone())),
        },
    ];
    let mut back = g
        .user()
        .forward_tcp(tokio_stream::iter(frames))
        .await
        .unwrap()
        .into_inner();
    let mut got = Vec::new();
    while let Some(frame) = back.message().await.unwrap() {
        if let Some(tcp_forward_frame::Payload::Data(data)) = frame.payload {
            got.extend_from_slice(&data);
        }
    }
    assert!(got == data, "{} bytes", got.len());
    for (host, port) in [
        ("10.0.0.1", 80),
        ("example.com", 80),
        ("localhost", 0),
        ("::1", 70_000),
    ] {
        let frames = tokio_stream::iter([open(host, port)]);
        let e = g.user().forward_tcp(frames).await.unwrap_err();
        assert_eq!(e.code(), Code::InvalidArgument, "{host}:{port}");
    }
}

#[tokio::test]
async fn files_go_in_and_out_of_the_working_directory_only() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let chunk = |chunk| plus::UploadChunk { chunk: Some(chunk) };
    let start = |directory: &str| {
        chunk(upload_chunk::Chunk::Start(plus::UploadStart {
            sandbox: "a".to_owned(),
            directory: directory.to_owned(),
            ..Default::default()
        }))
    };
    let data = || chunk(upload_chunk::Chunk::Data(Bytes::from_static(b"1234")));
    let upload = g
        .plus()
        .upload(tokio_stream::iter([start("src"), data(), data()]))
        .await;
    assert_eq!(upload.unwrap().into_inner().bytes, 8);
    let e = g
        .plus()
        .upload(tokio_stream::iter([start("/etc"), data()]))
        .await
        .unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    let e = g
        .plus()
        .upload(tokio_stream::iter([data()]))
        .await
        .unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    let download = |path: &str| plus::DownloadRequest {
        sandbox: "a".to_owned(),
        path: path.to_owned(),
        ..Default::default()
    };
    let mut out = g
        .plus()
        .download(download("src"))
        .await
        .unwrap()
        .into_inner();
    assert!(out.message().await.unwrap().is_none());
    let e = g.plus().download(download("../etc")).await.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_command() {
    let g = Gateway::start().await;
    g.ready("a").await;
    // More relays than may be open at once: each is given back when its client is gone.
    for _ in 0..100 {
        let events = g.user().exec_sandbox(exec(&["sleep"])).await.unwrap();
        drop(events);
    }
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        match run(&g, exec(&["fail", "0"])).await {
            Ok(out) => break assert_eq!(out.code, Some(0)),
            Err(e) => assert!(tokio::time::Instant::now() < deadline, "{e}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}
