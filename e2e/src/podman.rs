//! A Podman service of our own: own storage, own runtime directory, own socket, own configuration. The machine's
//! Podman is never touched. It lives in one directory, from which another process can end it.

use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Resource, Signal, getrlimit};

use crate::engine::unmount_below;
use crate::{command, host, processes, wait};

/// What the directories of services are called that [`directory`] names.
pub const PREFIX: &str = "openshell-podman-";

const START: Duration = Duration::from_secs(60);
const END: Duration = Duration::from_secs(20);

/// A private Podman that serves (or served) in a directory.
#[derive(Debug)]
pub struct Podman {
    directory: PathBuf,
    service: Option<Child>,
    owned: bool,
}

/// A directory for one more service of this process; its name says whose it is.
pub fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("/tmp/{PREFIX}{}-{number}", std::process::id()))
}

impl Podman {
    /// Starts one. It ends when this value is dropped, unless [`Podman::leave_running`] is called.
    ///
    /// # Errors
    /// When this process is not root, Podman is missing, or it does not come up.
    pub fn start(directory: &Path) -> Result<Self> {
        if !host::is_root() {
            bail!("a private Podman needs root: run this as root, or start a Podman service first");
        }
        std::fs::create_dir_all(directory)
            .with_context(|| format!("{} cannot be made", directory.display()))?;
        std::fs::write(directory.join("containers.conf"), configuration())?;
        // Without a file of its own it would read the machine's.
        let base = directory.display();
        let storage = format!(
            "[storage]\ndriver = \"overlay\"\nrunroot = \"{base}/run\"\ngraphroot = \"{base}/root\"\n"
        );
        std::fs::write(directory.join("storage.conf"), storage)?;
        let mut podman = Self {
            directory: directory.to_owned(),
            service: None,
            owned: true,
        };
        podman.start_service()?;
        Ok(podman)
    }

    /// The one that another process started in this directory and left running.
    pub fn open(directory: &Path) -> Option<Self> {
        directory.join("containers.conf").exists().then(|| Self {
            directory: directory.to_owned(),
            service: None,
            owned: false,
        })
    }

    /// `unix:///…`
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The socket as a path.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("podman.sock")
    }

    /// Its own client, on the same storage, past the service.
    ///
    /// # Errors
    /// When Podman is not installed.
    pub fn client(&self) -> Result<Command> {
        let program = host::find_program("podman")
            .context("podman is missing; on Debian or Ubuntu: apt-get install podman")?;
        let at = |name: &str| self.directory.join(name);
        let mut podman = Command::new(program);
        podman
            .env("CONTAINERS_CONF", at("containers.conf"))
            .env("CONTAINERS_STORAGE_CONF", at("storage.conf"))
            .arg("--root")
            .arg(at("root"))
            .arg("--runroot")
            .arg(at("run"))
            .arg("--tmpdir")
            .arg(at("tmp"))
            .args(["--cgroup-manager", "cgroupfs", "--events-backend", "file"]);
        Ok(podman)
    }

    /// Starts the service (again) and waits until it answers.
    ///
    /// # Errors
    /// When it does not.
    pub fn start_service(&mut self) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.directory.join("service.log"))?;
        let mut service = self.client()?;
        service
            .args(["system", "service", "--time", "0", &self.host()])
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0);
        let child = service.spawn().context("podman could not be started")?;
        std::fs::write(self.pid_file(), child.id().to_string())?;
        self.service = Some(child);
        let host = self.host();
        wait::until("the private Podman to answer", START, || {
            Ok(host::engine_answers(&host).then_some(()))
        })
        .with_context(|| {
            let log = std::fs::read_to_string(self.directory.join("service.log"));
            format!("podman said: {}", log.unwrap_or_default())
        })
    }

    /// Ends the service with a signal and waits for its end. What runs on it runs on.
    ///
    /// # Errors
    /// When it does not run, or does not end.
    pub fn end_service(&mut self, signal: Signal) -> Result<()> {
        let mut service = self.service.take().context("the service does not run")?;
        rustix::process::kill_process(Pid::from_child(&service), signal)
            .context("the service could not be signalled")?;
        wait::until("the service to end", END, || Ok(service.try_wait()?))?;
        host::remove_file(&self.pid_file())
    }

    /// The processes that stand between the service and its containers.
    pub fn monitors(&self) -> Vec<Pid> {
        let mark = self.directory.join("root").display().to_string();
        processes::of(|words| {
            words[0].ends_with("conmon") && words.iter().any(|word| word.contains(&mark))
        })
    }

    /// Lets it outlive this process.
    pub fn leave_running(mut self) {
        self.owned = false;
    }

    /// Ends it and removes everything it made.
    ///
    /// # Errors
    /// When a process or a file of it cannot be removed.
    pub fn stop(mut self) -> Result<()> {
        self.owned = false;
        self.tear_down()
    }

    fn pid_file(&self) -> PathBuf {
        self.directory.join("service.pid")
    }

    fn tear_down(&mut self) -> Result<()> {
        // Past the service, which may be gone: containers do not need it.
        let removed = command::run_with(
            self.client()?
                .args(["rm", "--all", "--force", "--volumes", "--time", "0"]),
            &[],
            Duration::from_secs(120),
        );
        let mark = self.directory.display().to_string();
        let service = self.service.take();
        let reaped = service.map(|mut service| std::thread::spawn(move || service.wait()));
        host::end_process(&self.pid_file(), &mark, END)?;
        drop(reaped);
        for monitor in self.monitors() {
            for process in processes::children(monitor).into_iter().chain([monitor]) {
                // It may just have ended.
                let _ = rustix::process::kill_process(process, Signal::KILL);
            }
        }
        let gone = || Ok(self.monitors().is_empty().then_some(()));
        wait::until("the containers' monitors to end", END, gone)?;
        removed?;
        unmount_below(&self.directory)?;
        std::fs::remove_dir_all(&self.directory)
            .with_context(|| format!("{} cannot be removed", self.directory.display()))
    }
}

impl Drop for Podman {
    fn drop(&mut self) {
        if self.owned {
            // Nobody is left to tell; the directory names what stayed.
            let _ = self.tear_down();
        }
    }
}

/// Without limits of its own Podman asks for more files and processes than a service may give that lacks
/// `CAP_SYS_RESOURCE`.
fn configuration() -> String {
    let files = getrlimit(Resource::Nofile).maximum.unwrap_or(1_048_576);
    format!(
        "[containers]\ndefault_ulimits = [\"nofile={files}:{files}\", \"nproc=4096:4096\"]\n\
         [engine]\nevents_logger = \"file\"\n"
    )
}
