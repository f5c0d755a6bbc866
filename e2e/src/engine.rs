//! A Docker engine of our own: own data, own containerd, own socket, own bridge. The machine's engine is never
//! touched. It lives in one directory, from which it can be found again and ended by another process.

mod outage;
mod runtimes;

use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};

use crate::{command, host, wait};

/// What the directories of engines are called that [`directory`] names.
pub const PREFIX: &str = "openshell-engine-";

/// How an engine is run.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Another address to listen on.
    pub also_listen: Option<String>,
    /// Whether containers outlive the daemon.
    pub live_restore: bool,
}

/// A private engine that runs (or ran) in a directory.
#[derive(Debug)]
pub struct Engine {
    directory: PathBuf,
    bridge: String,
    setup: Setup,
    /// By program.
    children: BTreeMap<&'static str, Child>,
    owned: bool,
}

/// A directory for one more engine of this process. Its name says whose it is, so that the next task can end what a
/// killed one has left. Sockets need short paths, so it is not below `target`.
pub fn directory() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    PathBuf::from(format!("/tmp/{PREFIX}{}-{number}", std::process::id()))
}

impl Engine {
    /// Starts one. It ends when this value is dropped, unless [`Engine::leave_running`] is called.
    ///
    /// # Errors
    /// When this process is not root, a program is missing, or the engine does not come up.
    pub fn start(directory: &Path, setup: Setup) -> Result<Self> {
        if !host::is_root() {
            bail!("a private engine needs root: run this as root, or start a Docker engine first");
        }
        std::fs::create_dir_all(directory)
            .with_context(|| format!("{} cannot be made", directory.display()))?;
        let mut engine = Self {
            directory: directory.to_owned(),
            bridge: String::new(),
            setup,
            children: BTreeMap::new(),
            owned: true,
        };
        engine.add_bridge()?;
        engine.start_containerd()?;
        engine.start_daemon()?;
        Ok(engine)
    }

    /// The engine that another process started in this directory and left running.
    pub fn open(directory: &Path) -> Option<Self> {
        let bridge = std::fs::read_to_string(directory.join("bridge")).ok()?;
        Some(Self {
            directory: directory.to_owned(),
            bridge,
            setup: Setup::default(),
            children: BTreeMap::new(),
            owned: false,
        })
    }

    /// `unix:///…`, for `DOCKER_HOST`.
    pub fn host(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The socket as a path.
    pub fn socket(&self) -> PathBuf {
        self.directory.join("docker.sock")
    }

    /// The address of the host on the engine's own bridge.
    pub fn bridge_address(&self) -> Result<String> {
        let text =
            command::ok(Command::new("ip").args(["-4", "-o", "addr", "show", &self.bridge]))?;
        let text = text.text();
        let address = text
            .split_whitespace()
            .nth(3)
            .and_then(|a| a.split('/').next());
        address
            .map(str::to_owned)
            .with_context(|| format!("bridge {} has no address", self.bridge))
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

    fn add_bridge(&mut self) -> Result<()> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        self.bridge = format!("osbr{pid:x}n{number:x}");
        std::fs::write(self.directory.join("bridge"), &self.bridge)?;
        command::ok(Command::new("ip").args(["link", "add", &self.bridge, "type", "bridge"]))
            .context("the engine's own bridge could not be made")?;
        // A private range, chosen by process and number so that two engines at once do not meet.
        let (block, net) = (200 + pid % 50, (pid / 50).wrapping_add(number * 101) % 256);
        let address = format!("10.{block}.{net}.1/24");
        command::ok(Command::new("ip").args(["addr", "add", &address, "dev", &self.bridge]))?;
        command::ok(Command::new("ip").args(["link", "set", &self.bridge, "up"]))?;
        Ok(())
    }

    fn spawn(&mut self, name: &'static str, program: &mut Command) -> Result<()> {
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.directory.join(format!("{name}.log")))?;
        let child = program
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // A group of its own: an interrupt at the terminal is for us to turn into an orderly end.
            .process_group(0)
            .spawn()
            .with_context(|| format!("{name} could not be started; is docker.io installed?"))?;
        std::fs::write(self.pid_file(name), child.id().to_string())?;
        self.children.insert(name, child);
        Ok(())
    }

    fn pid_file(&self, name: &str) -> PathBuf {
        self.directory.join(format!("{name}.pid"))
    }

    fn start_containerd(&mut self) -> Result<()> {
        let base = self.directory.display();
        let config = format!(
            "version = 2\nroot = \"{base}/containerd/root\"\nstate = \"{base}/containerd/state\"\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n\
             [grpc]\n  address = \"{base}/containerd.sock\"\n"
        );
        let file = self.directory.join("containerd.toml");
        std::fs::write(&file, config)?;
        self.spawn(
            "containerd",
            Command::new(program("containerd")?)
                .arg("--config")
                .arg(&file),
        )?;
        let socket = self.directory.join("containerd.sock");
        wait::until("containerd's socket", Duration::from_secs(30), || {
            Ok(socket.exists().then_some(()))
        })
        .with_context(|| self.last_words("containerd"))
    }

    /// The daemon on data of this name, not waited for.
    fn spawn_daemon(&mut self, data: &str) -> Result<()> {
        let directory = self.directory.clone();
        let at = |name: &str| directory.join(name).into_os_string();
        let mut dockerd = Command::new(program("dockerd")?);
        dockerd.arg("--host").arg(self.host());
        if let Some(address) = &self.setup.also_listen {
            dockerd.arg("--host").arg(address);
        }
        dockerd.arg("--data-root").arg(at(data));
        dockerd
            .arg("--exec-root")
            .arg(at(&format!("exec-of-{data}")));
        dockerd.arg("--pidfile").arg(at("dockerd.own.pid"));
        dockerd.arg("--containerd").arg(at("containerd.sock"));
        dockerd.arg("--bridge").arg(&self.bridge);
        dockerd.args([
            "--iptables=false",
            "--ip-masq=false",
            "--userland-proxy=false",
        ]);
        // Without a file of its own it would read the machine's.
        let file = serde_json::json!({ "live-restore": self.setup.live_restore });
        std::fs::write(at("daemon.json"), file.to_string())?;
        dockerd.arg("--config-file").arg(at("daemon.json"));
        self.spawn("dockerd", &mut dockerd)
    }

    fn last_words(&self, name: &str) -> String {
        let log = std::fs::read_to_string(self.directory.join(format!("{name}.log")));
        let log = log.unwrap_or_default();
        let lines: Vec<&str> = log.lines().collect();
        let tail = lines[lines.len().saturating_sub(15)..].join("\n");
        format!("{name} said last:\n{tail}")
    }

    fn tear_down(&mut self) -> Result<()> {
        let mark = self.directory.display().to_string();
        if !host::engine_answers(&self.host()) && runtimes::any(&self.directory) {
            // Containers outlive a daemon; only a daemon ends them in order.
            let _ = self.start_daemon();
        }
        if host::engine_answers(&self.host()) {
            remove_containers(&self.host())?;
        }
        for name in ["dockerd", "containerd"] {
            let reaped = self.reap_in_background(name);
            host::end_process(&self.pid_file(name), &mark, Duration::from_secs(20))?;
            drop(reaped);
        }
        runtimes::end(&self.directory)?;
        if !self.bridge.is_empty() {
            let _ = command::run(Command::new("ip").args(["link", "del", &self.bridge]))?;
        }
        unmount_below(&self.directory)?;
        std::fs::remove_dir_all(&self.directory)
            .with_context(|| format!("{} cannot be removed", self.directory.display()))
    }

    /// A child that ended stays a zombie until its parent waits for it.
    fn reap_in_background(&mut self, name: &str) -> Option<std::thread::JoinHandle<()>> {
        let mut child = self.children.remove(name)?;
        Some(std::thread::spawn(move || {
            let _ = child.wait();
        }))
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        if self.owned {
            // Nobody is left to tell; the directory names what stayed.
            let _ = self.tear_down();
        }
    }
}

fn program(name: &str) -> Result<PathBuf> {
    host::find_program(name).with_context(|| {
        format!("{name} is missing; on Debian or Ubuntu: apt-get install docker.io")
    })
}

fn remove_containers(host: &str) -> Result<()> {
    let docker = || {
        let mut docker = Command::new("docker");
        docker.args(["-H", host]);
        docker
    };
    let ids = command::ok(docker().args(["ps", "-aq"]))?.text();
    let ids: Vec<&str> = ids.lines().collect();
    if !ids.is_empty() {
        command::run(docker().args(["rm", "-f", "-v"]).args(ids))?;
    }
    Ok(())
}

/// An engine that was killed leaves mounts behind, which would keep its directory.
pub(crate) fn unmount_below(directory: &Path) -> Result<()> {
    let mounts = std::fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    let prefix = format!("{}/", directory.display());
    let points = mounts.lines().filter_map(|line| line.split(' ').nth(1));
    let mut ours: Vec<&str> = points.filter(|point| point.starts_with(&prefix)).collect();
    ours.sort_unstable_by_key(|point| std::cmp::Reverse(point.len()));
    for point in ours {
        command::run(Command::new("umount").args(["-l", point]))?;
    }
    Ok(())
}
