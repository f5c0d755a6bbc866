//! Processes and connections through the supervisor.

use std::sync::OnceLock;
use std::time::Duration;

use bytes::Bytes;
use openshell_api::session::{Relay, RelayError, RelayTarget};
use openshell_core::{Generation, SandboxId};
use openshell_proto::link::{
    AttachMainStart, ForwardEnd, ForwardFrame, ForwardOpen, ProcessInput, ProcessSpec, StdinClosed,
    forward_frame, process_input, process_output,
};
use openshell_proto::supervisor::{RelayFrame, relay_frame::Frame};

use crate::pair::{Pair, within};

const CHUNK: usize = 64 << 10;

fn exec(program: &str) -> RelayTarget {
    RelayTarget::Exec(ProcessSpec {
        argv: vec![program.to_owned()],
        ..ProcessSpec::default()
    })
}

fn input(input: process_input::Input) -> RelayFrame {
    RelayFrame {
        frame: Some(Frame::Input(ProcessInput { input: Some(input) })),
    }
}

async fn open(pair: &Pair, target: RelayTarget) -> Result<Relay, RelayError> {
    pair.gateway
        .hub
        .open(pair.world.sandbox, pair.world.generation, target)
        .await
}

async fn next(relay: &mut Relay) -> Option<Result<process_output::Output, RelayError>> {
    let frame = within("an output", relay.from_sandbox.recv()).await?;
    Some(frame.map(|frame| match frame.frame {
        Some(Frame::Output(output)) => output.output.unwrap(),
        other => panic!("{other:?}"),
    }))
}

/// The chunk at this place: one that is lost, doubled or out of order shows.
fn chunk(n: usize) -> Bytes {
    static BASE: OnceLock<Bytes> = OnceLock::new();
    let base = BASE.get_or_init(|| {
        (0..CHUNK + 251)
            .map(|n| (n / 251) as u8 ^ n as u8)
            .collect()
    });
    base.slice(n % 251..n % 251 + CHUNK)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_exec_carries_50_mb_there_and_back_unchanged_in_bounded_memory() {
    const CHUNKS: usize = 800;
    let pair = Pair::ready().await;
    let mut relay = open(&pair, exec("echo")).await.unwrap();
    let before = rss();
    let to_sandbox = relay.to_sandbox.clone();
    let writer = tokio::spawn(async move {
        for n in 0..CHUNKS {
            let bytes = process_input::Input::Stdin(chunk(n));
            to_sandbox.send(input(bytes)).await.unwrap();
        }
        let closed = process_input::Input::StdinClosed(StdinClosed {});
        to_sandbox.send(input(closed)).await.unwrap();
    });
    let (mut received, mut code) = (0, None);
    while let Some(output) = next(&mut relay).await {
        match output.unwrap() {
            process_output::Output::Stdout(bytes) => {
                assert!(bytes == chunk(received), "chunk {received}");
                received += 1;
            }
            process_output::Output::Exit(exit) => code = Some(exit.code),
            other => panic!("{other:?}"),
        }
    }
    writer.await.unwrap();
    assert_eq!((received, code), (CHUNKS, Some(0)));
    // Gateway, supervisor and sandbox are all in this process.
    let grown = rss().saturating_sub(before);
    assert!(grown < 40 << 20, "grew by {grown} bytes");
    pair.sandbox.processes(0).await;
}

#[tokio::test]
async fn a_reader_that_stalls_holds_the_writer_up_and_nothing_else() {
    let pair = Pair::ready().await;
    let stalled = open(&pair, exec("echo")).await.unwrap();
    let mut sent = 0;
    let full = async {
        loop {
            let bytes = process_input::Input::Stdin(chunk(0));
            stalled.to_sandbox.send(input(bytes)).await.unwrap();
            sent += CHUNK;
        }
    };
    drop(tokio::time::timeout(Duration::from_secs(2), full).await);
    assert!(sent < 8 << 20, "{sent} bytes were taken in");
    let mut other = open(&pair, exec("echo")).await.unwrap();
    let closed = process_input::Input::StdinClosed(StdinClosed {});
    other.to_sandbox.send(input(closed)).await.unwrap();
    assert!(matches!(
        next(&mut other).await,
        Some(Ok(process_output::Output::Exit(_)))
    ));
}

#[tokio::test]
async fn a_client_that_goes_away_ends_its_process() {
    let pair = Pair::ready().await;
    let relay = open(&pair, exec("echo")).await.unwrap();
    pair.sandbox.processes(1).await;
    drop(relay);
    pair.sandbox.processes(0).await;
    assert!(pair.supervisor.running());
}

#[tokio::test]
async fn dropping_the_input_of_a_relay_closes_it() {
    let pair = Pair::ready().await;
    let Relay {
        to_sandbox,
        mut from_sandbox,
    } = open(&pair, exec("echo")).await.unwrap();
    pair.sandbox.processes(1).await;
    drop(to_sandbox);
    pair.sandbox.processes(0).await;
    let last = within("the end", from_sandbox.recv()).await;
    assert_eq!(last, Some(Err(RelayError::SessionLost)), "no exit came");
    assert_eq!(within("the end", from_sandbox.recv()).await, None);
}

#[tokio::test]
async fn a_signal_reaches_the_process_and_its_exit_comes_back() {
    let pair = Pair::ready().await;
    let mut relay = open(&pair, exec("echo")).await.unwrap();
    let kill = input(process_input::Input::Signal(9));
    relay.to_sandbox.send(kill).await.unwrap();
    let Some(Ok(process_output::Output::Exit(exit))) = next(&mut relay).await else {
        panic!("no exit")
    };
    assert_eq!(exit.code, 137);
    assert!(next(&mut relay).await.is_none());
}

#[tokio::test]
async fn what_the_sandbox_refuses_is_refused_with_its_words() {
    let pair = Pair::ready().await;
    let refused = open(&pair, exec("refused")).await.unwrap_err();
    assert_eq!(
        refused,
        RelayError::Refused("too many processes".to_owned())
    );
}

#[tokio::test]
async fn what_the_sandbox_breaks_off_ends_with_its_words() {
    let pair = Pair::ready().await;
    let mut relay = open(&pair, exec("broken off")).await.unwrap();
    let refused = RelayError::Refused("no process could be made".to_owned());
    assert_eq!(next(&mut relay).await, Some(Err(refused)));
    assert!(next(&mut relay).await.is_none());
    pair.sandbox.processes(0).await;
}

#[tokio::test]
async fn main_can_be_attached_to() {
    let pair = Pair::ready().await;
    let target = RelayTarget::AttachMain(AttachMainStart {
        want_stdin: true,
        replay: true,
    });
    let mut relay = open(&pair, target).await.unwrap();
    let hello = process_input::Input::Stdin(Bytes::from_static(b"hello"));
    relay.to_sandbox.send(input(hello)).await.unwrap();
    let Some(Ok(process_output::Output::Stdout(bytes))) = next(&mut relay).await else {
        panic!("no output")
    };
    assert_eq!(&bytes[..], b"hello");
}

#[tokio::test]
async fn a_forward_carries_bytes_and_both_ends() {
    let pair = Pair::ready().await;
    let target = RelayTarget::Forward(ForwardOpen {
        host: "localhost".to_owned(),
        port: 8080,
    });
    let mut relay = open(&pair, target).await.unwrap();
    let frames = [
        forward_frame::Frame::Data(Bytes::from_static(b"GET /")),
        forward_frame::Frame::End(ForwardEnd {}),
    ];
    for frame in frames {
        let frame = RelayFrame {
            frame: Some(Frame::Forward(ForwardFrame { frame: Some(frame) })),
        };
        relay.to_sandbox.send(frame.clone()).await.unwrap();
        let back = within("the echo", relay.from_sandbox.recv()).await;
        assert_eq!(back, Some(Ok(frame)));
    }
    assert_eq!(within("the end", relay.from_sandbox.recv()).await, None);
}

#[tokio::test]
async fn a_relay_of_another_run_or_sandbox_has_no_session() {
    let pair = Pair::ready().await;
    let (hub, world) = (&pair.gateway.hub, &pair.world);
    for (sandbox, generation) in [
        (world.sandbox, Generation(4)),
        (SandboxId::random(), world.generation),
    ] {
        let refused = hub.open(sandbox, generation, exec("echo")).await;
        assert_eq!(refused.unwrap_err(), RelayError::NoSession);
        assert!(!hub.connected(sandbox, generation));
    }
    assert!(hub.connected(world.sandbox, world.generation));
}

#[tokio::test]
async fn a_lost_link_ends_open_relays_and_refuses_new_ones() {
    let pair = Pair::ready().await;
    let mut relay = open(&pair, exec("echo")).await.unwrap();
    pair.sandbox.hang_up();
    assert_eq!(next(&mut relay).await, Some(Err(RelayError::SessionLost)));
    pair.gateway.fence.seen("Link(false)").await;
    let refused = open(&pair, exec("echo")).await.unwrap_err();
    assert!(matches!(refused, RelayError::Refused(_)), "{refused:?}");
}

#[tokio::test]
async fn a_supervisor_that_ends_leaves_open_relays_with_an_unknown_outcome() {
    let mut pair = Pair::ready().await;
    let mut relay = open(&pair, exec("echo")).await.unwrap();
    pair.supervisor.term.cancel();
    pair.supervisor.ended().await;
    assert_eq!(next(&mut relay).await, Some(Err(RelayError::SessionLost)));
    pair.gateway.fence.seen("Closed").await;
}

#[tokio::test]
async fn more_relays_than_the_bound_are_refused_and_room_comes_back() {
    let pair = Pair::ready().await;
    let mut relays = Vec::new();
    let refused = loop {
        match open(&pair, exec("echo")).await {
            Ok(relay) => relays.push(relay),
            Err(refused) => break refused,
        }
        assert!(relays.len() <= 64);
    };
    assert!(
        matches!(refused, RelayError::TooMany | RelayError::Refused(_)),
        "{refused:?}"
    );
    assert_eq!(relays.len(), 64);
    relays.clear();
    pair.sandbox.processes(0).await;
    within("room for another", async {
        while open(&pair, exec("echo")).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Resident bytes of this process.
fn rss() -> usize {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = status.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
