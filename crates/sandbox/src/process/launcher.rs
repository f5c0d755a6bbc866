//! The launcher: the one thread that carries Landlock and the filter. Whatever it starts inherits both, and
//! nothing else in this process ever starts anything.

use std::net::Ipv4Addr;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;

use openshell_core::bootstrap::RESERVED;
use openshell_proto::link;
use tokio::sync::{mpsc, oneshot};

use crate::broker::{self, Question};
use crate::confine::{self, LANDLOCK_NOTE};
use crate::filter;
use crate::posture::{ATTRIBUTION, EGRESS, FILESYSTEM, Property};
use crate::process::command::{Plan, Refusal};
use crate::process::stdio::Theirs;
use crate::processes::{Ended, Registry};
use crate::sys::{self, Listener};

/// Starts that may wait for their turn.
const QUEUE: usize = 16;
const LAUNCHER_STACK: usize = 256 * 1024;
const BROKER_STACK: usize = 128 * 1024;
/// An address that leads nowhere, set aside for documentation: the launcher's own proof that nothing leaves.
pub(crate) const PROOF: (Ipv4Addr, u16) = (Ipv4Addr::new(192, 0, 2, 1), 9);

/// A started process.
#[derive(Debug)]
pub(crate) struct Started {
    /// Its number, and its group's.
    pub(crate) pid: i32,
    /// How it ends.
    pub(crate) ended: oneshot::Receiver<Ended>,
}

struct Order {
    plan: Plan,
    stdio: Theirs,
    terminal: bool,
    reply: oneshot::Sender<Result<Started, Refusal>>,
}

/// A way to the launcher's thread. The thread lives as long as this process.
#[derive(Clone)]
pub(crate) struct Launcher(mpsc::Sender<Order>);

/// What the launcher measured when it had put itself under the rules.
pub(crate) struct Measured {
    /// The properties.
    pub(crate) properties: Vec<Property>,
    /// Paths of the policy that this image lacks.
    pub(crate) skipped: Vec<String>,
}

impl Launcher {
    /// Starts the thread and the broker's, and answers when both are in force; an error says what is not.
    pub(crate) async fn new(
        policy: Option<link::Policy>,
        registry: Arc<Registry>,
        questions: mpsc::Sender<Question>,
    ) -> Result<(Self, Measured), String> {
        let (orders_tx, orders) = mpsc::channel(QUEUE);
        let (ready_tx, ready) = oneshot::channel();
        std::thread::Builder::new()
            .name("launcher".to_owned())
            .stack_size(LAUNCHER_STACK)
            .spawn(
                move || match prepare(policy.as_ref(), questions, &registry) {
                    Ok(measured) => {
                        if ready_tx.send(Ok(measured)).is_ok() {
                            serve(orders, &registry);
                        }
                    }
                    Err(why) => {
                        let _gone = ready_tx.send(Err(why));
                    }
                },
            )
            .map_err(|e| format!("no thread for the launcher: {e}"))?;
        let measured = ready
            .await
            .map_err(|_| "the launcher ended before it was ready".to_owned())??;
        Ok((Self(orders_tx), measured))
    }

    /// Starts a process.
    pub(crate) async fn start(
        &self,
        plan: Plan,
        stdio: Theirs,
        terminal: bool,
    ) -> Result<Started, Refusal> {
        let gone = || Refusal {
            code: 126,
            message: "the launcher has ended".to_owned(),
        };
        let (reply, answer) = oneshot::channel();
        let order = Order {
            plan,
            stdio,
            terminal,
            reply,
        };
        self.0.send(order).await.map_err(|_| gone())?;
        answer.await.map_err(|_| gone())?
    }
}

/// Puts the calling thread under the rules, and measures that they hold.
fn prepare(
    policy: Option<&link::Policy>,
    questions: mpsc::Sender<Question>,
    registry: &Registry,
) -> Result<Measured, String> {
    let (listener_tx, listener_rx) = std::sync::mpsc::sync_channel::<Arc<Listener>>(1);
    let (tid_tx, tid_rx) = std::sync::mpsc::sync_channel(1);
    // The broker's thread comes first: the filter must know its number.
    std::thread::Builder::new()
        .name("broker".to_owned())
        .stack_size(BROKER_STACK)
        .spawn(move || {
            let _gone = tid_tx.send(thread_id());
            if let Ok(listener) = listener_rx.recv() {
                broker::serve(&listener, &questions);
            }
        })
        .map_err(|e| format!("no thread for the broker: {e}"))?;
    let broker = tid_rx
        .recv()
        .map_err(|_| "the broker ended before it was ready".to_owned())?;
    let confinement = confine::confine(policy).map_err(|e| e.to_string())?;
    let program = filter::program(&[1, thread_id(), broker]);
    let (listener, mode) = install(&program)?;
    listener_tx
        .send(Arc::new(Listener(listener)))
        .map_err(|_| "the broker ended before it had its listener".to_owned())?;
    let properties = measure(registry, mode)?;
    Ok(Measured {
        properties,
        skipped: confinement.skipped,
    })
}

fn thread_id() -> u32 {
    rustix::thread::gettid()
        .as_raw_nonzero()
        .get()
        .cast_unsigned()
}

/// Killable waits where the kernel has them (5.19): else a signal to the caller repeats the question.
fn install(program: &[sys::Instruction]) -> Result<(std::os::fd::OwnedFd, &'static str), String> {
    if let Ok(fd) = sys::install_filter(program, libc::SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV) {
        return Ok((fd, "killable"));
    }
    sys::install_filter(program, 0)
        .map(|fd| (fd, "interruptible"))
        .map_err(|e| format!("the system call filter is refused: {e}"))
}

/// Not what was asked for, but what a process of its own sees.
fn measure(registry: &Registry, mode: &str) -> Result<Vec<Property>, String> {
    let mut seen = Err(std::io::Error::other("not probed"));
    let _never_started = registry.start(false, || {
        // Under the registry's lock, so that the reaper leaves the probe to us.
        seen = sys::connect_in_child(PROOF.0, PROOF.1);
        Err::<i32, ()>(())
    });
    let egress = match seen {
        Ok(libc::ECONNREFUSED) => {
            Property::held(EGRESS, format!("seccomp user notification ({mode})"))
        }
        Ok(other) => {
            let error = std::io::Error::from_raw_os_error(other);
            Property::missing(
                EGRESS,
                format!("a connection was not refused by the broker: {error}"),
            )
        }
        Err(e) => Property::missing(EGRESS, format!("the probe could not run: {e}")),
    };
    let attribution = if egress.enforced {
        Property::held(
            ATTRIBUTION,
            "/proc/<pid>/exe and ancestors, while the caller is held",
        )
    } else {
        Property::missing(ATTRIBUTION, "callers cannot be looked at")
    };
    let hidden = match std::fs::read_dir(RESERVED) {
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => {
            Property::held(FILESYSTEM, LANDLOCK_NOTE)
        }
        Err(e) => Property::missing(FILESYSTEM, format!("{RESERVED}: {e}")),
        Ok(_) => Property::missing(FILESYSTEM, format!("{RESERVED} can be read")),
    };
    Ok(vec![egress, attribution, hidden])
}

fn serve(mut orders: mpsc::Receiver<Order>, registry: &Registry) {
    while let Some(order) = orders.blocking_recv() {
        let Order {
            plan,
            stdio,
            terminal,
            reply,
        } = order;
        let started = registry
            .start(terminal, || spawn(&plan, stdio, terminal))
            .map(|(pid, ended)| Started { pid, ended });
        if let Err(Ok(orphan)) = reply.send(started) {
            // Whoever asked has gone: nobody would ever end it.
            registry.signal(orphan.pid, rustix::process::Signal::KILL, true);
        }
    }
}

fn spawn(plan: &Plan, stdio: Theirs, terminal: bool) -> Result<i32, Refusal> {
    let [stdin, stdout, stderr] = stdio.0;
    let mut command = Command::new(&plan.program);
    command
        .arg0(&plan.name)
        .args(&plan.arguments)
        .env_clear()
        .envs(&plan.environment)
        .current_dir(&plan.directory)
        .stdin(Stdio::from(stdin))
        .stdout(Stdio::from(stdout))
        .stderr(Stdio::from(stderr));
    sys::in_new_session(&mut command, terminal);
    match command.spawn() {
        Ok(child) => Ok(i32::try_from(child.id()).unwrap_or(0)),
        Err(error) => Err(refusal(plan, &error)),
    }
}

fn refusal(plan: &Plan, error: &std::io::Error) -> Refusal {
    let name = plan.program.display();
    let (code, why) = match error.raw_os_error() {
        Some(libc::ENOENT) => (127, "its interpreter or loader does not exist".to_owned()),
        Some(libc::EACCES) => (
            126,
            "permission denied (not executable, or outside what the filesystem policy grants)"
                .to_owned(),
        ),
        Some(libc::ENOEXEC) => (126, "is no program for this machine".to_owned()),
        Some(libc::E2BIG) => (126, "arguments and environment are too long".to_owned()),
        Some(libc::EAGAIN) => (126, "the sandbox is at its limit of processes".to_owned()),
        _ => (126, error.to_string()),
    };
    Refusal {
        code,
        message: format!("{name}: {why}"),
    }
}
