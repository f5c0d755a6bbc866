//! Connections: each request goes to the engine on a connection of its own, unless a fault befalls it.

use std::convert::Infallible;
use std::sync::Arc;

use anyhow::{Context as _, Result};
use bytes::Bytes;
use futures_util::future::join;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Empty, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::header::UPGRADE;
use hyper::service::service_fn;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;

use super::calls::{Call, container, without_version};
use super::flights::{Broken, broken};
use super::known::Whose;
use super::trap::{Fault, Met};
use super::{Shared, events, locked};

type Body = UnsyncBoxBody<Bytes, Broken>;

/// So many pieces of a body may be under way.
const PIECES: usize = 8;

pub(super) async fn accept(listener: UnixListener, shared: Arc<Shared>) {
    // An error would be one of this connection, or of too many open files: the next may do better.
    loop {
        if let Ok((stream, _)) = listener.accept().await {
            let serving = connection(stream, Arc::clone(&shared));
            shared.tasks.spawn(serving);
        } else {
            tokio::task::yield_now().await;
        }
    }
}

async fn connection(stream: UnixStream, shared: Arc<Shared>) {
    let service = service_fn(move |request| take(Arc::clone(&shared), request));
    let serving = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    // Either side may hang up at any time.
    let _ = serving.await;
}

/// One call. An error breaks the connection without an answer.
async fn take(shared: Arc<Shared>, mut request: Request<Incoming>) -> Result<Response<Body>> {
    let upgrade = request
        .headers()
        .contains_key(UPGRADE)
        .then(|| hyper::upgrade::on(&mut request));
    let (call, request) = describe(&shared, request).await?;
    let met = shared.traps.meet(&call);
    let (number, mut cut) = shared.flights.begin(&call);
    let mut flight = Flight {
        shared,
        number,
        cut: cut.clone(),
    };
    tokio::select! {
        biased;
        () = broken(&mut cut) => Err(Broken.into()),
        answer = suffer(&mut flight, &call, request, met) => {
            let answer = answer?;
            deliver(flight, &call, answer, upgrade)
        }
    }
}

/// A call that is under way for as long as this is held.
struct Flight {
    shared: Arc<Shared>,
    number: u64,
    cut: watch::Receiver<bool>,
}

impl Drop for Flight {
    fn drop(&mut self) {
        self.shared.flights.end(self.number);
    }
}

/// Says what call it is. Only what makes a container is read whole: its labels tell whose it will be.
async fn describe(shared: &Shared, request: Request<Incoming>) -> Result<(Call, Request<Body>)> {
    let path = without_version(request.uri().path()).to_owned();
    let method = request.method().to_string();
    if path == "/containers/create" {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let plan: Value = serde_json::from_slice(&body).unwrap_or_default();
        let whose = Whose::read(&plan["Labels"]);
        let call = Call {
            method,
            path,
            whose,
        };
        return Ok((call, Request::from_parts(parts, full(body))));
    }
    let whose = container(&path).map(|id| locked(&shared.known).whose(id));
    let call = Call {
        method,
        path,
        whose: whose.unwrap_or_default(),
    };
    let request = request.map(|body| body.map_err(|_| Broken).boxed_unsync());
    Ok((call, request))
}

/// What the gateway is to hear: as the engine streams it, or whole.
enum Answer {
    Stream(Response<Incoming>),
    Whole(Response<Bytes>),
}

async fn suffer(
    flight: &mut Flight,
    call: &Call,
    request: Request<Body>,
    met: Option<Met>,
) -> Result<Answer> {
    let shared = &flight.shared;
    let Some(met) = met else {
        return pass(shared, call, request).await;
    };
    match met.fault() {
        Fault::Pass => pass(shared, call, request).await,
        Fault::HoldCall => {
            met.hold().await;
            pass(shared, call, request).await
        }
        Fault::HoldAnswer => {
            let answer = whole(pass(shared, call, request).await?).await?;
            met.hold().await;
            Ok(Answer::Whole(answer))
        }
        Fault::Delay(time) => {
            tokio::time::sleep(time).await;
            pass(shared, call, request).await
        }
        Fault::CutCall => Err(Broken.into()),
        Fault::CutAnswer => {
            whole(pass(shared, call, request).await?).await?;
            Err(Broken.into())
        }
        Fault::Double => {
            let (parts, body) = request.into_parts();
            let body = body.collect().await?.to_bytes();
            let first = Request::from_parts(parts.clone(), full(body.clone()));
            whole(pass(shared, call, first).await?).await?;
            pass(shared, call, Request::from_parts(parts, full(body))).await
        }
        Fault::Answer(status, message) => refusal(status, message),
    }
}

fn refusal(status: u16, message: &str) -> Result<Answer> {
    let words = serde_json::json!({ "message": message }).to_string();
    let answer = Response::builder()
        .status(StatusCode::from_u16(status)?)
        .header("Content-Type", "application/json")
        .body(words.into())?;
    Ok(Answer::Whole(answer))
}

/// To the engine and back; what is made and removed is noted.
async fn pass(shared: &Arc<Shared>, call: &Call, request: Request<Body>) -> Result<Answer> {
    let stream = UnixStream::connect(&shared.engine)
        .await
        .context("the engine cannot be reached")?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    shared.tasks.spawn(connection.with_upgrades());
    let answer = sender.send_request(request).await?;
    if call.path == "/containers/create" {
        let answer = whole(Answer::Stream(answer)).await?;
        let made: Value = serde_json::from_slice(answer.body()).unwrap_or_default();
        if let Some(id) = made["Id"].as_str() {
            locked(&shared.known).learn(id, call.whose.clone());
        }
        return Ok(Answer::Whole(answer));
    }
    if call.method == "DELETE"
        && answer.status().is_success()
        && let Some(id) = call.container()
    {
        locked(&shared.known).forget(id);
    }
    Ok(Answer::Stream(answer))
}

async fn whole(answer: Answer) -> Result<Response<Bytes>> {
    match answer {
        Answer::Whole(answer) => Ok(answer),
        Answer::Stream(answer) => {
            let (parts, body) = answer.into_parts();
            Ok(Response::from_parts(
                parts,
                body.collect().await?.to_bytes(),
            ))
        }
    }
}

fn full(bytes: Bytes) -> Body {
    Full::new(bytes).map_err(never).boxed_unsync()
}

fn empty() -> Body {
    Empty::new().map_err(never).boxed_unsync()
}

const fn never(never: Infallible) -> Broken {
    match never {}
}

fn deliver(
    flight: Flight,
    call: &Call,
    answer: Answer,
    upgrade: Option<OnUpgrade>,
) -> Result<Response<Body>> {
    let mut answer = match answer {
        Answer::Whole(answer) if answer.body().is_empty() => return Ok(answer.map(|_| empty())),
        Answer::Whole(answer) => return Ok(answer.map(full)),
        Answer::Stream(answer) => answer,
    };
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        let theirs = hyper::upgrade::on(&mut answer);
        let ours = upgrade.context("the engine changed the protocol unasked")?;
        let shared = Arc::clone(&flight.shared);
        shared.tasks.spawn(splice(ours, theirs, flight));
        return Ok(answer.map(|_| empty()));
    }
    if hyper::body::Body::is_end_stream(answer.body()) {
        return Ok(answer.map(|_| empty()));
    }
    let (parts, body) = answer.into_parts();
    let (to, from) = mpsc::channel(PIECES);
    let events = call.path == "/events" && parts.status.is_success();
    let shared = Arc::clone(&flight.shared);
    shared.tasks.spawn(async move {
        if events {
            events::pump(&flight.shared, body, to, flight.cut.clone()).await;
        } else {
            pump(body, to, flight.cut.clone()).await;
        }
    });
    let body = StreamBody::new(ReceiverStream::new(from)).boxed_unsync();
    Ok(Response::from_parts(parts, body))
}

/// Passes a body on, piece by piece.
async fn pump(
    mut from: Incoming,
    to: mpsc::Sender<Result<Frame<Bytes>, Broken>>,
    mut cut: watch::Receiver<bool>,
) {
    loop {
        let piece = tokio::select! {
            biased;
            () = broken(&mut cut) => Some(Err(Broken)),
            () = to.closed() => return,
            piece = from.frame() => piece.map(|piece| piece.map_err(|_| Broken)),
        };
        let Some(piece) = piece else { return };
        let last = piece.is_err();
        if to.send(piece).await.is_err() || last {
            return;
        }
    }
}

/// Both directions of an upgraded connection, each to its own end.
async fn splice(ours: OnUpgrade, theirs: OnUpgrade, mut flight: Flight) {
    let (Ok(ours), Ok(theirs)) = join(ours, theirs).await else {
        return;
    };
    let (mut ours, mut theirs) = (TokioIo::new(ours), TokioIo::new(theirs));
    tokio::select! {
        biased;
        () = broken(&mut flight.cut) => {}
        // Whoever hangs up ends it.
        _ = tokio::io::copy_bidirectional(&mut ours, &mut theirs) => {}
    }
}
