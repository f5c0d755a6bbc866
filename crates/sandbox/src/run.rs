//! The life of PID 1: from the first dial to the exit status, whoever ends it.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use openshell_proto::link::Exit;
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep_until, timeout};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::bootstrap::Bootstrap;
use crate::broker::MAX_PENDING;
use crate::freeze::Freezer;
use crate::link::control::Control;
use crate::process::command::Base;
use crate::process::main_process::MainProcess;
use crate::processes::{self, Registry, locked};
use crate::runtime::{Runtime, Session, StopOrder};
use crate::{dns, egress, link, posture, sys};

/// After main has ended by itself its end is reported for so long, and its output read.
const REPORT: Duration = Duration::from_secs(2);
/// After a stop somebody waits for us to be gone.
const REPORT_STOPPED: Duration = Duration::from_millis(300);
/// The exit status if there never was a main process whose own it could be.
const NO_MAIN: i32 = 70;

/// Why it ends.
enum Ending {
    /// Main has ended by itself.
    Main(Exit),
    /// Somebody said so: through the link, or the engine by a signal.
    Stop(StopOrder),
    /// Nobody is there to govern it.
    Abandoned(String),
}

fn runtime(bootstrap: Bootstrap) -> (Arc<Runtime>, Inbox) {
    let (questions, questions_in) = mpsc::channel(MAX_PENDING);
    let (stops, stops_in) = mpsc::channel(8);
    let posture = posture::measure();
    let runtime = Runtime {
        bootstrap,
        base: Base::from_image(posture.uid),
        posture: Mutex::new(posture),
        launcher: std::sync::OnceLock::new(),
        registry: Arc::new(Registry::new()),
        main: MainProcess::new(),
        freezer: Freezer::default(),
        control: Control::new(),
        session: Mutex::new(Session::default()),
        questions,
        stops,
        tasks: TaskTracker::new(),
    };
    let inbox = Inbox {
        questions: questions_in,
        stops: stops_in,
    };
    (Arc::new(runtime), inbox)
}

struct Inbox {
    questions: mpsc::Receiver<crate::broker::Question>,
    stops: mpsc::Receiver<StopOrder>,
}

/// Runs until the end; the answer is the exit status.
pub(crate) async fn run(bootstrap: Bootstrap) -> std::io::Result<i32> {
    let terminate = signal(SignalKind::terminate())?;
    let interrupt = signal(SignalKind::interrupt())?;
    let mut children = signal(SignalKind::child())?;
    let (runtime, mut inbox) = runtime(bootstrap);
    let faults = locked(&runtime.posture).faults();
    if !faults.is_empty() {
        let text = format!("nothing will be started: {faults}");
        crate::complain(&text);
        runtime.control.log("error", "sandbox", text, &[]);
    }
    sys::trim_heap();
    // Ends with this function; the process follows.
    let end = CancellationToken::new();
    let _ends = end.clone().drop_guard();
    let background = TaskTracker::new();
    let registry = Arc::clone(&runtime.registry);
    background.spawn(end.clone().run_until_cancelled_owned(async move {
        loop {
            tokio::select! {
                _ = children.recv() => {}
                () = registry.started() => {}
            }
            registry.reap();
        }
    }));
    let answers = egress::answer(Arc::clone(&runtime), inbox.questions);
    background.spawn(end.clone().run_until_cancelled_owned(answers));
    let frozen = Arc::clone(&runtime);
    let hold = async move { frozen.freezer.hold().await };
    background.spawn(end.clone().run_until_cancelled_owned(hold));
    let names = dns::serve(Arc::clone(&runtime));
    background.spawn(end.clone().run_until_cancelled_owned(names));
    let mut keep = std::pin::pin!(link::keep(Arc::clone(&runtime)));
    let orders = orders(Arc::clone(&runtime), terminate, interrupt);
    background.spawn(end.clone().run_until_cancelled_owned(orders));
    let ending = tokio::select! {
        why = &mut keep => Ending::Abandoned(why),
        exit = runtime.main.ended() => Ending::Main(exit),
        Some(order) = inbox.stops.recv() => Ending::Stop(order),
    };
    let abandoned = matches!(ending, Ending::Abandoned(_));
    let finish = finish(&runtime, ending, &mut inbox.stops);
    // The link goes on while it is being told; without one there is nobody to tell.
    if abandoned {
        return Ok(finish.await);
    }
    tokio::select! {
        code = finish => Ok(code),
        code = async { keep.await; std::future::pending().await } => Ok(code),
    }
}

/// The engine says it by a signal.
async fn orders(runtime: Arc<Runtime>, mut terminate: Signals, mut interrupt: Signals) {
    loop {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let (done, _nobody) = oneshot::channel();
        let grace = runtime.bootstrap.stop_grace;
        let _full = runtime.stops.try_send(StopOrder { grace, done });
    }
}

async fn finish(
    runtime: &Arc<Runtime>,
    ending: Ending,
    stops: &mut mpsc::Receiver<StopOrder>,
) -> i32 {
    match ending {
        Ending::Main(exit) => {
            runtime.control.report_exit(exit.clone());
            tokio::select! {
                () = told(runtime) => {}
                // Whoever stops us now gets what he wants at once.
                Some(order) = stops.recv() => drop(order.done.send(())),
            }
            settle().await;
            let _none = sys::signal_all(libc::SIGKILL);
            exit.code
        }
        Ending::Stop(order) => {
            locked(&runtime.session).terminal = true;
            runtime.main.tell_to_end();
            stop(runtime, order.grace).await;
            if let Some(exit) = runtime.main.exit() {
                runtime.control.report_exit(exit);
            }
            let _gone = order.done.send(());
            let told = runtime.control.exit_acknowledged();
            if runtime.main.exit().is_some() {
                let _late = timeout(REPORT_STOPPED, told).await;
            }
            settle().await;
            status(runtime)
        }
        Ending::Abandoned(why) => {
            locked(&runtime.session).terminal = true;
            let text = format!("{why}; the workload is ended");
            crate::complain(&text);
            runtime.control.log("error", "sandbox", text, &[]);
            stop(runtime, runtime.bootstrap.stop_grace).await;
            status(runtime)
        }
    }
}

/// Main has ended: waits, each within its bound, for a watcher that was announced, and until its end is known and
/// its output read.
async fn told(runtime: &Runtime) {
    tokio::select! {
        () = runtime.main.watched() => {}
        // Nobody can come any more.
        () = runtime.control.unlinked() => {}
    }
    let known = async {
        tokio::join!(
            runtime.control.exit_acknowledged(),
            runtime.main.unwatched()
        );
    };
    let _late = timeout(REPORT, known).await;
}

/// Lets what has been said reach the socket: with one thread each of its hands on the way gets its turn.
async fn settle() {
    for _turn in 0..64 {
        tokio::task::yield_now().await;
    }
}

fn status(runtime: &Runtime) -> i32 {
    runtime.main.exit().map_or(NO_MAIN, |exit| exit.code)
}

/// Ends everything: TERM (HUP too for a terminal), after the grace KILL. A process that is stopped or frozen is
/// let go on first, else it would not hear.
async fn stop(runtime: &Arc<Runtime>, grace: Duration) {
    let mut reaped = runtime.registry.reaped();
    if !grace.is_zero() {
        runtime.registry.hang_up();
        let _none = sys::signal_all(libc::SIGTERM);
        runtime.freezer.release();
    }
    let deadline = Instant::now() + grace;
    while processes::alive() > 0 {
        tokio::select! {
            changed = reaped.changed() => if changed.is_err() { break },
            () = sleep_until(deadline) => {
                // Not once: a fork may have been under way.
                let _none = sys::signal_all(libc::SIGKILL);
                runtime.freezer.release();
                break;
            }
        }
    }
    // What is killed is gone soon, but for what the kernel itself holds up.
    let last = Instant::now() + Duration::from_secs(2);
    while processes::alive() > 0 && Instant::now() < last {
        let _none = sys::signal_all(libc::SIGKILL);
        let _later = timeout(Duration::from_millis(20), reaped.changed()).await;
    }
    // Its end is known as soon as its output has been read.
    if runtime.main.running().is_some() {
        let _late = timeout(Duration::from_secs(1), runtime.main.ended()).await;
    }
}
