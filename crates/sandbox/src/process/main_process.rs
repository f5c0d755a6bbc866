//! The main process: started at most once in the life of this run (L10), kept whether or not anybody watches.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use openshell_proto::link::main_state::State as Wire;
use openshell_proto::link::process_output::Output;
use openshell_proto::link::{
    AttachMainStart, Exit, MainState, NotStarted, ProcessInput, ProcessSpec, ProcessStarted,
    Running,
};
use tokio::sync::watch;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;
use tonic::{Status, Streaming};

use super::exec::{self, Sender, output};
use super::launcher::Started;
use super::ring::{CAPACITY, Next, Ring, Source};
use super::stdio::{CHUNK, End, Ours};
use crate::processes::locked;
use crate::runtime::Runtime;
use crate::{clock, process};

/// A watcher that was announced is waited for so long when main has ended before it came.
const AWAIT_WATCHER: Duration = Duration::from_secs(10);

/// What has become of it.
#[derive(Clone, Debug)]
enum State {
    NotStarted,
    Starting,
    Running(Running),
    Exited(Exit),
}

/// The main process.
pub(crate) struct MainProcess {
    state: watch::Sender<State>,
    spec: Mutex<Option<ProcessSpec>>,
    /// Whoever had the sandbox made comes to watch.
    awaited: AtomicBool,
    /// Everything here was told to end, while it ran.
    told: AtomicBool,
    output: Ring,
    /// Its input, taken by whoever holds it.
    input: Mutex<Input>,
}

#[derive(Default)]
struct Input {
    end: Option<End>,
    held: bool,
}

impl MainProcess {
    /// Not started.
    pub(crate) fn new() -> Self {
        Self {
            state: watch::Sender::new(State::NotStarted),
            spec: Mutex::default(),
            awaited: AtomicBool::new(false),
            told: AtomicBool::new(false),
            output: Ring::new(CAPACITY),
            input: Mutex::default(),
        }
    }

    /// As the link carries it. A start in progress is a start: whoever asks waits for it.
    pub(crate) fn state(&self) -> MainState {
        let state = match &*self.state.borrow() {
            State::NotStarted | State::Starting => Wire::NotStarted(NotStarted {}),
            State::Running(running) => Wire::Running(*running),
            State::Exited(exit) => Wire::Exited(exit.clone()),
        };
        MainState { state: Some(state) }
    }

    /// Waits for its end.
    pub(crate) async fn ended(&self) -> Exit {
        let mut state = self.state.subscribe();
        loop {
            if let State::Exited(exit) = &*state.borrow_and_update() {
                return exit.clone();
            }
            if state.changed().await.is_err() {
                // The sender lives in `self`.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Its end, if it has.
    pub(crate) fn exit(&self) -> Option<Exit> {
        match &*self.state.borrow() {
            State::Exited(exit) => Some(exit.clone()),
            _ => None,
        }
    }

    /// Whether it has a terminal; its number if it runs.
    pub(crate) fn running(&self) -> Option<(i32, bool)> {
        let terminal = locked(&self.spec).as_ref().is_some_and(|s| s.tty);
        match &*self.state.borrow() {
            State::Running(running) => Some((running.pid, terminal)),
            _ => None,
        }
    }

    /// Everything here is told to end: if it runs, its end is not of its own choice.
    pub(crate) fn tell_to_end(&self) {
        self.told.store(true, Ordering::Relaxed);
    }

    /// Waits for the first watcher, if one was announced and has not come, within a bound: whoever has a sandbox
    /// made for one short command comes a moment after it has ended.
    pub(crate) async fn watched(&self) {
        if self.awaited.load(Ordering::Relaxed) {
            let _nobody = timeout(AWAIT_WATCHER, self.output.followed()).await;
        }
    }

    /// Waits until nobody reads its output any more.
    pub(crate) async fn unwatched(&self) {
        self.output.all_gone().await;
    }
}

/// Starts it, or says what became of an earlier start with the same arguments. `awaited`: its end waits for a
/// watcher.
pub(crate) async fn start(
    runtime: &Arc<Runtime>,
    spec: ProcessSpec,
    awaited: bool,
) -> Result<MainState, Status> {
    process::command::check(&spec).map_err(|e| Status::invalid_argument(e.to_string()))?;
    runtime.launcher()?;
    let main = &runtime.main;
    let first = {
        let mut known = locked(&main.spec);
        match &*known {
            None if runtime.freezer.is_frozen() => {
                return Err(Status::unavailable(
                    "the sandbox is frozen; main is started when it goes on",
                ));
            }
            None => {
                *known = Some(spec.clone());
                main.awaited.store(awaited, Ordering::Relaxed);
                main.state.send_replace(State::Starting);
                true
            }
            Some(earlier) if *earlier == spec => false,
            Some(_) => {
                return Err(Status::failed_precondition(
                    "the main process of this run was started with other arguments; it is started once",
                ));
            }
        }
    };
    if first {
        // A task of its own: a caller that goes away half-way must not leave a start without an end.
        let owned = Arc::clone(runtime);
        runtime
            .tasks
            .spawn(async move { launch(&owned, &spec).await });
    }
    let mut state = main.state.subscribe();
    let settled = state
        .wait_for(|s| matches!(s, State::Running(_) | State::Exited(_)))
        .await;
    drop(settled);
    Ok(main.state())
}

async fn launch(runtime: &Arc<Runtime>, spec: &ProcessSpec) {
    let main = &runtime.main;
    let failed = |exit: Exit| {
        let text = format!("main was not started: {}", exit.error);
        runtime.control.log("error", "main", text, &[]);
        let note = format!("openshell: {}\n", exit.error);
        async move {
            main.output.write(Source::Stderr, Bytes::from(note)).await;
            main.output.close();
            main.state.send_replace(State::Exited(exit));
        }
    };
    let (started, ours) = match process::start(runtime, spec).await {
        Ok(Ok(started)) => started,
        Ok(Err(refusal)) => return failed(process::never_began(&refusal)).await,
        Err(status) => {
            let exit = Exit {
                code: 126,
                time: Some(clock::stamp()),
                error: status.message().to_owned(),
                signal: 0,
                told: false,
            };
            return failed(exit).await;
        }
    };
    let Started { pid, ended } = started;
    let Ours {
        stdin,
        stdout,
        stderr,
    } = ours;
    locked(&main.input).end = Some(stdin);
    let text = format!("main was started as process {pid}");
    runtime.control.log("info", "main", text, &[]);
    main.state.send_replace(State::Running(Running {
        pid,
        started: Some(clock::stamp()),
    }));
    let gone = CancellationToken::new();
    let copy = async {
        let out = pump(&main.output, &stdout, Source::Stdout, &gone, spec.tty);
        match &stderr {
            Some(stderr) => {
                let err = pump(&main.output, stderr, Source::Stderr, &gone, false);
                tokio::join!(out, err);
            }
            None => out.await,
        }
    };
    let end = async {
        let ended = ended.await;
        gone.cancel();
        ended
    };
    let (ended, ()) = tokio::join!(end, copy);
    main.output.close();
    locked(&main.input).end = None;
    if let Ok(ended) = ended {
        let text = format!("main has ended with code {}", ended.code);
        let fields = [
            ("code", ended.code.to_string()),
            ("signal", ended.signal.to_string()),
        ];
        runtime.control.log("info", "main", text, &fields);
        let told = main.told.load(Ordering::Relaxed);
        let exit = process::exit(ended);
        main.state
            .send_replace(State::Exited(Exit { told, ..exit }));
    }
}

async fn pump(to: &Ring, from: &End, source: Source, gone: &CancellationToken, terminal: bool) {
    let mut buffer = vec![0; CHUNK];
    loop {
        let chunk = tokio::select! {
            biased;
            chunk = from.read(&mut buffer) => chunk,
            () = gone.cancelled() => break,
        };
        match chunk {
            Ok(Some(bytes)) => to.write(source, bytes).await,
            Ok(None) | Err(_) => return,
        }
    }
    while let Some(bytes) = exec::rest(from, &mut buffer, terminal).await {
        to.write(source, bytes).await;
    }
}

/// Holds main's input; gives it back when dropped.
struct Holder<'a> {
    input: &'a Mutex<Input>,
}

impl Drop for Holder<'_> {
    fn drop(&mut self) {
        locked(self.input).held = false;
    }
}

fn claim(main: &MainProcess) -> Option<Holder<'_>> {
    let mut input = locked(&main.input);
    if input.held {
        return None;
    }
    input.held = true;
    Some(Holder { input: &main.input })
}

/// Attaches a watcher: output from the replay buffer on, then the end; input if it is the one holder.
pub(crate) async fn attach(
    runtime: Arc<Runtime>,
    start: AttachMainStart,
    input: Streaming<ProcessInput>,
    to: Sender,
) {
    let main = &runtime.main;
    let mut follower = main.output.follow(start.replay);
    let holder = start.want_stdin.then(|| claim(main)).flatten();
    // Output of a main that was never started is that of one that will be.
    let pid = main.running().map_or(0, |(pid, _)| pid);
    let begun = ProcessStarted {
        pid,
        stdin_owner: holder.is_some(),
    };
    if to.send(Ok(output(Output::Started(begun)))).await.is_err() {
        return;
    }
    let copy = async {
        while let Some(next) = follower.next().await {
            let message = match next {
                Next::Chunk(Source::Stdout, bytes) => Output::Stdout(bytes),
                Next::Chunk(Source::Stderr, bytes) => Output::Stderr(bytes),
                Next::Missed(n) => Output::Stderr(Bytes::from(format!(
                    "openshell: {n} bytes of output were not read in time and are lost\n"
                ))),
            };
            if to.send(Ok(output(message))).await.is_err() {
                return None;
            }
        }
        Some(main.ended().await)
    };
    let feed = feed(&runtime, holder, input);
    let exit = tokio::select! {
        exit = copy => exit,
        () = async { feed.await; std::future::pending().await } => return,
        () = to.closed() => return,
    };
    if let Some(exit) = exit {
        let _gone = to.send(Ok(output(Output::Exit(exit)))).await;
    }
}

async fn feed(runtime: &Runtime, holder: Option<Holder<'_>>, mut input: Streaming<ProcessInput>) {
    while let Ok(Some(message)) = input.message().await {
        // Whoever only reads may neither write nor signal.
        let Some(_mine) = &holder else { continue };
        let Some((pid, terminal)) = runtime.main.running() else {
            continue;
        };
        let mut end = locked(&runtime.main.input).end.clone();
        exec::apply(runtime, pid, terminal, &mut end, message).await;
        if end.is_none() {
            locked(&runtime.main.input).end = None;
        }
    }
}
