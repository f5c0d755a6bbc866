//! A process between a client and a relay: order, back-pressure, deadline, and who ends what.

use std::time::Duration;

use futures_util::stream;
use openshell_proto::link::process_output::Output;
use tokio::sync::mpsc;
use tonic::Code;

use super::*;
use crate::session::RelayError;

type FromSandbox = mpsc::Sender<Result<RelayFrame, RelayError>>;

fn relay() -> (Relay, mpsc::Receiver<RelayFrame>, FromSandbox) {
    let (to_sandbox, inside) = mpsc::channel(4);
    let (out, from_sandbox) = mpsc::channel(4);
    let relay = Relay {
        to_sandbox,
        from_sandbox,
    };
    (relay, inside, out)
}

fn output(output: Output) -> Result<RelayFrame, RelayError> {
    Ok(RelayFrame {
        frame: Some(relay_frame::Frame::Output(link::ProcessOutput {
            output: Some(output),
        })),
    })
}

fn exit(code: i32) -> Output {
    Output::Exit(link::Exit {
        code,
        ..link::Exit::default()
    })
}

fn got(frame: Option<RelayFrame>) -> process_input::Input {
    match frame.unwrap().frame.unwrap() {
        relay_frame::Frame::Input(i) => i.input.unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn stdin_travels_in_pieces_and_in_order() {
    let data: Bytes = (0..100_000_u32).map(|i| i as u8).collect();
    let mut joined = Vec::new();
    for piece in stdin(data.clone()) {
        let Some(process_input::Input::Stdin(piece)) = piece.input else {
            panic!("{piece:?}");
        };
        assert!(piece.len() <= PIECE);
        joined.extend_from_slice(&piece);
    }
    assert_eq!(joined, data);
    assert_eq!(stdin(Bytes::new()).count(), 0);
}

#[tokio::test]
async fn input_goes_in_output_comes_out_and_the_exit_is_last() {
    let (relay, mut inside, out) = relay();
    let (sink, mut client) = mpsc::channel(4);
    let input = stdin(Bytes::from_static(b"hi"))
        .chain([stdin_closed()])
        .map(Ok);
    let task = tokio::spawn(run(relay, stream::iter(input), None, sink, |o| vec![o]));
    assert!(matches!(got(inside.recv().await), process_input::Input::Stdin(d) if d == "hi"));
    assert!(matches!(
        got(inside.recv().await),
        process_input::Input::StdinClosed(_)
    ));
    out.send(output(Output::Stdout("ho".into()))).await.unwrap();
    out.send(output(exit(3))).await.unwrap();
    assert!(matches!(client.recv().await, Some(Ok(Output::Stdout(d))) if d == "ho"));
    assert!(matches!(client.recv().await, Some(Ok(Output::Exit(e))) if e.code == 3));
    assert!(client.recv().await.is_none());
    task.await.unwrap();
    // The relay is gone with it.
    assert!(inside.recv().await.is_none());
}

#[tokio::test(start_paused = true)]
async fn at_its_deadline_a_process_is_killed_and_answers_124() {
    let (relay, mut inside, _out) = relay();
    let (sink, mut client) = mpsc::channel(4);
    let limit = Some(Duration::from_secs(5));
    let task = tokio::spawn(run(relay, stream::pending(), limit, sink, |o| vec![o]));
    assert!(matches!(
        got(inside.recv().await),
        process_input::Input::Signal(9)
    ));
    assert!(matches!(client.recv().await, Some(Ok(Output::Exit(e))) if e.code == TIMED_OUT));
    task.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn the_deadline_holds_although_the_sandbox_takes_no_input_and_the_client_no_output() {
    let (relay, inside, out) = relay();
    let (sink, mut client) = mpsc::channel(1);
    let endless = stream::repeat_with(|| Ok(input(process_input::Input::Stdin("x".into()))));
    let limit = Some(Duration::from_secs(5));
    let task = tokio::spawn(run(relay, endless, limit, sink, |o| vec![o]));
    for _ in 0..4 {
        out.send(output(Output::Stdout("y".into()))).await.unwrap();
    }
    out.closed().await;
    let mut last = None;
    while let Some(message) = client.recv().await {
        last = Some(message.unwrap());
    }
    assert!(matches!(last, Some(Output::Exit(e)) if e.code == TIMED_OUT));
    task.await.unwrap();
    drop(inside);
}

#[tokio::test]
async fn a_client_that_goes_away_ends_the_relay() {
    let (relay, mut inside, _out) = relay();
    let mut answer =
        crate::stream::spawn(move |sink| run(relay, stream::pending(), None, sink, |o| vec![o]));
    // Started and waiting.
    assert!(futures_util::poll!(answer.next()).is_pending());
    drop(answer);
    assert!(inside.recv().await.is_none());
}

#[tokio::test]
async fn a_broken_session_is_no_exit() {
    let ends: [Option<RelayError>; 2] = [Some(RelayError::SessionLost), None];
    for end in ends {
        let (relay, _inside, out) = relay();
        let (sink, mut client) = mpsc::channel(4);
        let task = tokio::spawn(run(relay, stream::pending(), None, sink, |o| vec![o]));
        if let Some(e) = end {
            out.send(Err(e)).await.unwrap();
        }
        drop(out);
        let e = client.recv().await.unwrap().unwrap_err();
        assert_eq!(e.code(), Code::Unavailable);
        assert!(e.message().contains("unknown"), "{}", e.message());
        task.await.unwrap();
    }
}
