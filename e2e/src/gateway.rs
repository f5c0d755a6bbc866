//! A gateway from release binaries in a directory of its own, and the CLI that talks to it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Signal};

use crate::command::{self, Outcome};
use crate::{host, wait};

/// What a gateway is started with.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where `bin/` and `libexec/openshell/` are.
    pub dist: PathBuf,
    /// Its state, configuration file, log and process id go here.
    pub directory: PathBuf,
    /// Where it registers itself for the CLI: `XDG_CONFIG_HOME`.
    pub config_home: PathBuf,
    /// Under which name it does.
    pub name: String,
    /// Its namespace on the engine.
    pub namespace: String,
    /// `docker` or `podman`.
    pub driver: &'static str,
    /// The engine's socket.
    pub engine: PathBuf,
    /// The socket that the gateway is told instead: of what stands between it and the engine.
    pub relay: Option<PathBuf>,
    /// Where it listens; the health pages are beside it.
    pub address: SocketAddr,
    /// Health, readiness and metrics.
    pub health: SocketAddr,
    /// The image of sandboxes that name none.
    pub image: String,
    /// `always`, `if_not_present` or `never`.
    pub pull_policy: &'static str,
    /// More lines for its file, beginning with a `[table]`.
    pub more: String,
    /// Even if it is the superuser's, it may open only what its owner may.
    pub bound_by_modes: bool,
}

impl Settings {
    /// Those of a test: everything below one directory, free ports.
    ///
    /// # Errors
    /// When no port is free.
    pub fn for_test(dist: &Path, directory: &Path, engine: &Path, name: &str) -> Result<Self> {
        Ok(Self {
            dist: dist.to_owned(),
            directory: directory.to_owned(),
            config_home: directory.join("config"),
            name: name.to_owned(),
            namespace: name.to_owned(),
            driver: "docker",
            engine: engine.to_owned(),
            relay: None,
            address: free_address()?,
            health: free_address()?,
            image: crate::image::TEST_IMAGE.to_owned(),
            pull_policy: "if_not_present",
            more: String::new(),
            bound_by_modes: false,
        })
    }

    fn program(&self) -> Command {
        let gateway = self.dist.join("bin/openshell-gateway");
        if !self.bound_by_modes {
            return Command::new(gateway);
        }
        let mut program = Command::new("setpriv");
        let without = "-dac_override,-dac_read_search";
        program.args(["--inh-caps", without, "--bounding-set", without]);
        program.arg(gateway);
        program
    }

    fn file(&self) -> String {
        format!(
            "[openshell]\nversion = 2\n\n[openshell.gateway]\nname = {name:?}\nbind_address = \"{address}\"\n\
             health_bind_address = \"{health}\"\nmetrics_bind_address = \"{health}\"\n\
             compute_driver = {driver:?}\nstate_dir = {state:?}\nlog_format = \"text\"\n\n\
             [openshell.drivers.{driver}]\nsocket_path = {engine:?}\ndefault_image = {image:?}\n\
             image_pull_policy = {pull_policy:?}\nsandbox_label = {namespace:?}\n\n{more}",
            name = self.name,
            driver = self.driver,
            address = self.address,
            health = self.health,
            state = self.directory.join("state"),
            engine = self.relay.as_ref().unwrap_or(&self.engine),
            image = self.image,
            namespace = self.namespace,
            pull_policy = self.pull_policy,
            more = self.more,
        )
    }
}

/// A gateway that runs.
#[derive(Debug)]
pub struct Gateway {
    settings: Settings,
    child: Option<Child>,
}

impl Gateway {
    /// Starts one and waits until it is ready.
    ///
    /// # Errors
    /// When it does not become ready; the end of its log is part of the error.
    pub fn start(settings: Settings) -> Result<Self> {
        let mut gateway = Self {
            settings,
            child: None,
        };
        gateway.launch()?;
        Ok(gateway)
    }

    /// Starts it (again) in its directory and waits until it is ready.
    ///
    /// # Errors
    /// See [`Gateway::start`].
    pub fn launch(&mut self) -> Result<()> {
        self.spawn()?;
        self.wait_ready()
    }

    /// Starts it (again) and does not wait: without its engine it is not ready, and serves all the same.
    ///
    /// # Errors
    /// When its program cannot be started.
    pub fn spawn(&mut self) -> Result<()> {
        let settings = &self.settings;
        std::fs::create_dir_all(&settings.directory)?;
        let file = settings.directory.join("gateway.toml");
        std::fs::write(&file, settings.file())?;
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.log_file())?;
        let child = settings
            .program()
            .arg("--config")
            .arg(&file)
            .env("XDG_CONFIG_HOME", &settings.config_home)
            .env_remove("OPENSHELL_GATEWAY")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .process_group(0)
            .spawn()
            .context("the gateway could not be started")?;
        std::fs::write(self.pid_file(), child.id().to_string())?;
        self.child = Some(child);
        Ok(())
    }

    /// Waits until it is ready.
    ///
    /// # Errors
    /// When it ends instead, or does not become ready; the end of its log is part of the error.
    pub fn wait_ready(&mut self) -> Result<()> {
        let health = self.settings.health;
        // The last file of its entry in the CLI's register.
        let register = self.settings.config_home.join("openshell/gateways");
        let registered = register.join(&self.settings.name).join("metadata.json");
        let mut child = self.child.take();
        let ready = wait::until("the gateway to be ready", Duration::from_secs(30), || {
            if let Some(status) = child.as_mut().map(Child::try_wait).transpose()?.flatten() {
                bail!("the gateway ended at once ({status})");
            }
            let ready = http_get(health, "/readyz").is_ok_and(|(code, _)| code == 200);
            Ok((ready && registered.exists()).then_some(()))
        });
        self.child = child;
        ready.with_context(|| {
            let page = http_get(health, "/readyz")
                .map(|(_, page)| page)
                .unwrap_or_default();
            format!("readiness: {page}\nlog: {}", self.last_words())
        })
    }

    /// Its settings.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The same, to be changed for its next start.
    pub const fn settings_mut(&mut self) -> &mut Settings {
        &mut self.settings
    }

    /// Its process id.
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// The CLI, pointed at this gateway and nothing else.
    pub fn cli(&self) -> Command {
        cli(&self.settings)
    }

    /// Runs the CLI to its end.
    ///
    /// # Errors
    /// When it cannot be started or does not end; its exit code is the caller's to judge.
    pub fn run(&self, words: &[&str]) -> Result<Outcome> {
        command::run(self.cli().args(words))
    }

    /// As [`Gateway::run`], and must end with 0.
    ///
    /// # Errors
    /// When it does not.
    pub fn ok(&self, words: &[&str]) -> Result<Outcome> {
        self.run(words)?
            .success()
            .with_context(|| self.last_words())
    }

    /// The engine's client, pointed at this gateway's engine.
    pub fn docker(&self) -> Command {
        let mut docker = Command::new("docker");
        docker
            .arg("-H")
            .arg(format!("unix://{}", self.settings.engine.display()));
        docker
    }

    /// Everything of this gateway that the engine holds, by name.
    ///
    /// # Errors
    /// When the engine does not answer.
    pub fn left_on_engine(&self) -> Result<Vec<String>> {
        let filter = format!(
            "label=openshell.ai/sandbox-namespace={}",
            self.settings.namespace
        );
        let mut found = Vec::new();
        for (words, format) in [
            (["ps", "-a"].as_slice(), "container {{.Names}}"),
            (["volume", "ls"].as_slice(), "volume {{.Name}}"),
        ] {
            let mut docker = self.docker();
            docker
                .args(words)
                .args(["--filter", &filter, "--format", format]);
            found.extend(command::ok(&mut docker)?.text().lines().map(str::to_owned));
        }
        Ok(found)
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// When it does not run.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        let child = self.child.as_ref().context("the gateway does not run")?;
        rustix::process::kill_process(Pid::from_child(child), signal)
            .context("the gateway could not be signalled")
    }

    /// Ends it with a signal and waits for its end.
    ///
    /// # Errors
    /// When it does not run, or does not end within 20 s.
    pub fn end(&mut self, signal: Signal) -> Result<i32> {
        self.signal(signal)?;
        let mut child = self.child.take().context("the gateway does not run")?;
        let status = wait::until("the gateway to end", Duration::from_secs(20), || {
            Ok(child.try_wait()?)
        });
        if status.is_err() {
            child.kill()?;
            child.wait()?;
        }
        host::remove_file(&self.pid_file())?;
        Ok(command::exit_code(status?))
    }

    /// Lets it outlive this process.
    pub fn leave_running(mut self) {
        self.child = None;
    }

    /// One of its pages.
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn page(&self, path: &str) -> Result<(u16, String)> {
        http_get(self.settings.health, path)
    }

    /// Its log so far.
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_file()).unwrap_or_default()
    }

    fn last_words(&self) -> String {
        let log = self.log();
        let lines: Vec<&str> = log.lines().collect();
        lines[lines.len().saturating_sub(20)..].join("\n")
    }

    fn log_file(&self) -> PathBuf {
        self.settings.directory.join("gateway.log")
    }

    fn pid_file(&self) -> PathBuf {
        self.settings.directory.join("gateway.pid")
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let Some(mut child) = self.child.take() else {
            return;
        };
        let _ = child.kill();
        let _ = child.wait();
        if std::thread::panicking() {
            // A failed test shows what the gateway had to say.
            let _ = writeln!(
                std::io::stderr(),
                "--- the gateway's log:\n{}",
                self.last_words()
            );
        }
        // What a test did not delete must not disturb the next.
        let _ = remove_all(&self.settings);
    }
}

/// The CLI for these settings.
pub fn cli(settings: &Settings) -> Command {
    let mut cli = Command::new(settings.dist.join("bin/openshell"));
    cli.env("XDG_CONFIG_HOME", &settings.config_home)
        .env("OPENSHELL_GATEWAY", &settings.name)
        .env_remove("OPENSHELL_GATEWAY_ENDPOINT")
        .env("NO_COLOR", "1");
    cli
}

/// Ends a gateway that another process started in this directory.
///
/// # Errors
/// When it cannot be ended.
pub fn end_recorded(directory: &Path) -> Result<()> {
    let mark = directory.join("gateway.toml").display().to_string();
    host::end_process(
        &directory.join("gateway.pid"),
        &mark,
        Duration::from_secs(20),
    )
}

/// Whether the gateway of this directory runs.
pub fn runs_recorded(directory: &Path) -> bool {
    let mark = directory.join("gateway.toml").display().to_string();
    host::recorded_process(&directory.join("gateway.pid"), &mark).is_some()
}

/// Removes every container and volume of these settings' namespace.
///
/// # Errors
/// When the engine refuses.
pub fn remove_all(settings: &Settings) -> Result<()> {
    let filter = format!(
        "label=openshell.ai/sandbox-namespace={}",
        settings.namespace
    );
    let docker = || {
        let mut docker = Command::new("docker");
        docker
            .arg("-H")
            .arg(format!("unix://{}", settings.engine.display()));
        docker
    };
    let kinds: [(&[&str], &[&str]); 2] = [
        (&["ps", "-aq"], &["rm", "-f", "-v"]),
        (&["volume", "ls", "-q"], &["volume", "rm"]),
    ];
    for (list, remove) in kinds {
        let ids = command::ok(docker().args(list).args(["--filter", &filter]))?.text();
        if !ids.is_empty() {
            command::ok(docker().args(remove).args(ids.lines()))?;
        }
    }
    Ok(())
}

/// A loopback address whose port was free a moment ago.
///
/// # Errors
/// When none is.
pub fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind(("127.0.0.1", 0))?.local_addr()?)
}

/// A plain HTTP request: status and body.
///
/// # Errors
/// When nobody answers within 2 s, or not in HTTP.
pub fn http_get(address: SocketAddr, path: &str) -> Result<(u16, String)> {
    let limit = Duration::from_secs(2);
    let mut stream = TcpStream::connect_timeout(&address, limit)?;
    stream.set_read_timeout(Some(limit))?;
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    let answer = String::from_utf8_lossy(&answer);
    let (head, body) = answer
        .split_once("\r\n\r\n")
        .context("not an HTTP answer")?;
    let code = head.split(' ').nth(1).and_then(|code| code.parse().ok());
    Ok((code.context("no HTTP status")?, body.to_owned()))
}
