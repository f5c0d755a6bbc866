//! The relay between a client and an engine that are both a few lines of plain sockets: what each of them hears.

use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tempfile::TempDir;

use super::{Calls, Events, Fault, Half, Relay, locked};
use crate::wait;

const PATIENCE: Duration = Duration::from_secs(20);

/// An engine that notes what it hears, and a relay before it.
struct Scene {
    relay: Relay,
    heard: Arc<Mutex<Vec<String>>>,
    /// The open event stream, for a test to write to.
    events: Arc<Mutex<Option<UnixStream>>>,
    _directory: TempDir,
}

impl Scene {
    fn new() -> Self {
        let directory = TempDir::new().expect("a directory");
        let engine = directory.path().join("engine.sock");
        let listener = UnixListener::bind(&engine).expect("a socket");
        let heard = Arc::new(Mutex::new(Vec::new()));
        let events = Arc::new(Mutex::new(None));
        let (notes, stream) = (Arc::clone(&heard), Arc::clone(&events));
        std::thread::spawn(move || {
            while let Ok((socket, _)) = listener.accept() {
                let (notes, stream) = (Arc::clone(&notes), Arc::clone(&stream));
                std::thread::spawn(move || engine_answers(socket, &notes, &stream));
            }
        });
        let relay = Relay::start(&engine, &directory.path().join("relay.sock")).expect("a relay");
        Self {
            relay,
            heard,
            events,
            _directory: directory,
        }
    }

    fn heard(&self, line: &str) -> usize {
        locked(&self.heard).iter().filter(|l| *l == line).count()
    }

    fn send(&self, method: &str, path: &str, body: &str) -> UnixStream {
        send(self.relay.socket().to_owned(), method, path, body)
    }

    /// A call to its end: status line and body; nothing if the connection broke.
    fn call(&self, method: &str, path: &str, body: &str) -> Option<(String, String)> {
        answer(self.send(method, path, body))
    }

    fn make(&self, role: &str) {
        let labels = format!(
            r#"{{"Labels":{{"openshell.ai/isolation-role":"{role}","openshell.ai/sandbox-name":"box"}}}}"#
        );
        // The engine here names what it makes by its role.
        let made = self.call(
            "POST",
            &format!("/v1.41/containers/create?name={role}"),
            &labels,
        );
        assert_eq!(made.expect("an answer").1, format!(r#"{{"Id":"{role}"}}"#));
    }

    /// The engine tells of an event.
    fn happens(&self, action: &str, role: &str) {
        let line = format!(
            r#"{{"Action":"{action}","Actor":{{"ID":"{role}","Attributes":{{"openshell.ai/isolation-role":"{role}"}}}}}}"#
        );
        let mut stream = locked(&self.events);
        let stream = stream.as_mut().expect("a listener");
        // Cut in two, as it may arrive.
        for part in [&line[..9], &format!("{}\n", &line[9..])] {
            write!(stream, "{:x}\r\n{part}\r\n", part.len()).expect("it listens");
        }
    }
}

fn send(socket: PathBuf, method: &str, path: &str, body: &str) -> UnixStream {
    let mut stream = UnixStream::connect(socket).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: docker\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .expect("it listens");
    stream
}

fn answer(mut stream: UnixStream) -> Option<(String, String)> {
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    Some((head.lines().next()?.to_owned(), body.to_owned()))
}

fn read_head(stream: &mut UnixStream) -> String {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).unwrap_or(0) == 0 {
            break;
        }
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

fn engine_answers(
    mut socket: UnixStream,
    heard: &Mutex<Vec<String>>,
    events: &Mutex<Option<UnixStream>>,
) {
    let head = read_head(&mut socket);
    let line = head.lines().next().unwrap_or_default();
    let line = line.trim_end_matches(" HTTP/1.1").to_owned();
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length")
            .then(|| value.trim().parse::<usize>().expect("a number"))
    });
    let mut body = vec![0; length.unwrap_or(0)];
    socket.read_exact(&mut body).expect("the body");
    locked(heard).push(line.clone());
    let written = if line.ends_with("/events") {
        let head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
        let written = socket.write_all(head.as_bytes());
        *locked(events) = Some(socket);
        written
    } else if line.ends_with("/attach") {
        echo(socket)
    } else if line.ends_with("/start") {
        socket.write_all(b"HTTP/1.1 204 No Content\r\n\r\n")
    } else {
        let name = line.split_once("name=").map(|(_, name)| name);
        let body = name.map_or_else(|| line.clone(), |name| format!(r#"{{"Id":"{name}"}}"#));
        write!(
            socket,
            "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
    };
    // The relay may have hung up: then there is nobody to tell.
    drop(written);
}

fn echo(mut socket: UnixStream) -> std::io::Result<()> {
    socket.write_all(b"HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    socket.write_all(text.to_uppercase().as_bytes())
}

#[test]
fn what_no_trap_chooses_passes_with_status_and_body() {
    let scene = Scene::new();
    let (status, body) = scene.call("GET", "/v1.41/info", "").expect("an answer");
    assert_eq!(
        (status.as_str(), body.as_str()),
        ("HTTP/1.1 200 OK", "GET /v1.41/info")
    );
    let (status, _) = scene
        .call("POST", "/v1.41/containers/a/start", "")
        .expect("an answer");
    assert_eq!(status, "HTTP/1.1 204 No Content");
}

#[test]
fn an_answer_is_held_although_the_engine_has_given_it() {
    let scene = Scene::new();
    let trap = scene.relay.trap(Calls::stops(), Fault::HoldAnswer);
    let mut waiting = scene.send("POST", "/v1.41/containers/a/stop", "");
    trap.wait_held(1, PATIENCE).expect("held");
    assert_eq!(scene.heard("POST /v1.41/containers/a/stop"), 1);
    waiting.set_nonblocking(true).expect("set");
    let early = waiting.read(&mut [0]).expect_err("nothing yet");
    assert_eq!(early.kind(), std::io::ErrorKind::WouldBlock);
    waiting.set_nonblocking(false).expect("set");
    trap.release();
    let (status, body) = answer(waiting).expect("an answer");
    assert_eq!(status, "HTTP/1.1 200 OK");
    assert_eq!(body, "POST /v1.41/containers/a/stop");
}

#[test]
fn a_held_call_is_not_heard_by_the_engine_before_the_release() {
    let scene = Scene::new();
    let trap = scene.relay.trap(Calls::kills(), Fault::HoldCall);
    let waiting = scene.send("POST", "/containers/a/kill", "");
    trap.wait_held(1, PATIENCE).expect("held");
    assert_eq!(scene.heard("POST /containers/a/kill"), 0);
    trap.release();
    assert!(answer(waiting).is_some());
    assert_eq!(scene.heard("POST /containers/a/kill"), 1);
}

#[test]
fn a_held_call_whose_client_hangs_up_is_held_no_more() {
    let scene = Scene::new();
    let trap = scene.relay.trap(Calls::waits(), Fault::HoldAnswer);
    let waiting = scene.send("POST", "/containers/a/wait", "");
    trap.wait_held(1, PATIENCE).expect("held");
    assert_eq!(scene.relay.under_way(&Calls::waits()), 1);
    drop(waiting);
    wait::until("it to be let go", PATIENCE, || {
        Ok((trap.held() == 0).then_some(()))
    })
    .expect("so");
    assert_eq!(trap.met(), 1);
    assert_eq!(scene.relay.under_way(&Calls::waits()), 0);
}

#[test]
fn only_the_chosen_occurrence_of_the_chosen_half_runs_into_a_trap() {
    let scene = Scene::new();
    for role in ["sandbox", "supervisor"] {
        scene.make(role);
    }
    let all = scene.relay.trap(Calls::looks().sandbox("box"), Fault::Pass);
    let calls = Calls::looks().of(Half::Workload).after(1).once();
    let trap = scene.relay.trap(calls, Fault::Answer(500, "no such luck"));
    let look = |id: &str| scene.call("GET", &format!("/v1.41/containers/{id}/json"), "");
    let status = |id: &str| look(id).expect("an answer").0;
    assert!(status("sandbox").ends_with("200 OK"));
    assert!(status("supervisor").ends_with("200 OK"));
    let (refused, words) = look("sandbox").expect("an answer");
    assert!(refused.ends_with("500 Internal Server Error"), "{refused}");
    assert_eq!(words, r#"{"message":"no such luck"}"#);
    assert!(status("sandbox").ends_with("200 OK"));
    assert!(status("stranger").ends_with("200 OK"));
    assert_eq!((trap.met(), all.met()), (1, 4));
    assert_eq!(scene.heard("GET /v1.41/containers/sandbox/json"), 2);
}

#[test]
fn a_container_that_was_removed_is_known_no_more() {
    let scene = Scene::new();
    scene.make("sandbox");
    let trap = scene
        .relay
        .trap(Calls::looks().of(Half::Workload), Fault::Pass);
    scene.call("GET", "/containers/sandbox/json", "");
    scene.call("DELETE", "/containers/sandbox?force=true", "");
    scene.call("GET", "/containers/sandbox/json", "");
    assert_eq!(trap.met(), 1);
}

#[test]
fn a_cut_call_is_not_heard_and_a_cut_answer_was_heard() {
    let scene = Scene::new();
    let before = scene.relay.trap(Calls::starts(), Fault::CutCall);
    let after = scene.relay.trap(Calls::removals(), Fault::CutAnswer);
    assert_eq!(scene.call("POST", "/containers/a/start", ""), None);
    assert_eq!(scene.call("DELETE", "/containers/a", ""), None);
    assert_eq!(scene.heard("POST /containers/a/start"), 0);
    assert_eq!(scene.heard("DELETE /containers/a"), 1);
    assert_eq!((before.met(), after.met()), (1, 1));
}

#[test]
fn a_doubled_call_is_heard_twice_and_answered_once_and_a_delayed_one_arrives() {
    let scene = Scene::new();
    let double = scene.relay.trap(Calls::stops(), Fault::Double);
    let delay = scene
        .relay
        .trap(Calls::kills(), Fault::Delay(Duration::from_millis(50)));
    assert!(scene.call("POST", "/containers/a/stop", "{}").is_some());
    assert!(scene.call("POST", "/containers/a/kill", "").is_some());
    assert_eq!(scene.heard("POST /containers/a/stop"), 2);
    assert_eq!(scene.heard("POST /containers/a/kill"), 1);
    assert_eq!((double.met(), delay.met()), (1, 1));
}

#[test]
fn an_upgraded_connection_goes_both_ways_and_each_way_has_its_own_end() {
    let scene = Scene::new();
    let mut stream = UnixStream::connect(scene.relay.socket()).expect("a connection");
    stream.set_read_timeout(Some(PATIENCE)).expect("a limit");
    stream
        .write_all(b"POST /containers/a/attach HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
        .expect("it listens");
    let head = read_head(&mut stream);
    assert!(head.starts_with("HTTP/1.1 101"), "{head}");
    stream.write_all(b"what goes in").expect("it listens");
    // The engine answers only after the end of what it reads.
    stream.shutdown(std::net::Shutdown::Write).expect("an end");
    let mut back = String::new();
    stream.read_to_string(&mut back).expect("an answer");
    assert_eq!(back, "WHAT GOES IN");
}

/// Reads an event stream until so many lines have come; gives action and container of each.
fn lines(stream: &mut UnixStream, count: usize) -> Vec<String> {
    let mut text = String::new();
    let mut byte = [0];
    while text.matches("}}}\n").count() < count {
        assert_eq!(stream.read(&mut byte).expect("in time"), 1, "{text}");
        text.push(char::from(byte[0]));
    }
    let events = text.lines().filter(|line| line.starts_with('{'));
    events
        .map(|line| {
            let event: serde_json::Value = serde_json::from_str(line).expect("an event");
            let word = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
            format!("{} {}", word(&event["Action"]), word(&event["Actor"]["ID"]))
        })
        .collect()
}

fn listen(scene: &Scene) -> UnixStream {
    let mut stream = scene.send("GET", "/v1.41/events", "");
    assert!(read_head(&mut stream).starts_with("HTTP/1.1 200"));
    wait::until("the stream", PATIENCE, || {
        Ok(locked(&scene.events).is_some().then_some(()))
    })
    .expect("a stream");
    stream
}

#[test]
fn an_event_is_kept_told_again_and_let_go_while_others_pass() {
    let scene = Scene::new();
    let mut stream = listen(&scene);
    let trap = scene
        .relay
        .hold_events(Events::of_action("die").of(Half::Workload));
    scene.happens("die", "sandbox");
    trap.wait_met(1, PATIENCE).expect("caught");
    scene.happens("start", "sandbox");
    scene.happens("die", "supervisor");
    assert_eq!(lines(&mut stream, 2), ["start sandbox", "die supervisor"]);
    assert_eq!(trap.repeat(), 1);
    assert_eq!(lines(&mut stream, 1), ["die sandbox"]);
    assert_eq!(trap.release(), 1);
    scene.happens("destroy", "sandbox");
    let last = lines(&mut stream, 2);
    assert!(last.contains(&"die sandbox".to_owned()), "{last:?}");
    assert!(last.contains(&"destroy sandbox".to_owned()), "{last:?}");
    // One that is lost is never told.
    let trap = scene
        .relay
        .hold_events(Events::of_action("die").container("sandbox"));
    scene.happens("die", "sandbox");
    trap.wait_met(1, PATIENCE).expect("caught");
    trap.lose();
    scene.happens("oom", "sandbox");
    assert_eq!(lines(&mut stream, 1), ["oom sandbox"]);
}

#[test]
fn a_stream_that_is_cut_ends_without_its_end() {
    let scene = Scene::new();
    let mut stream = listen(&scene);
    scene.happens("start", "sandbox");
    assert_eq!(lines(&mut stream, 1), ["start sandbox"]);
    assert_eq!(scene.relay.cut(&Calls::waits()), 0);
    assert_eq!(scene.relay.cut(&Calls::events()), 1);
    let mut rest = String::new();
    stream
        .read_to_string(&mut rest)
        .expect("an end of the connection");
    assert!(!rest.contains("0\r\n\r\n"), "it ended in order: {rest:?}");
    wait::until("it to be over", PATIENCE, || {
        Ok((scene.relay.under_way(&Calls::events()) == 0).then_some(()))
    })
    .expect("over");
}
