//! A gateway of its own for each test, and short words for what tests do with it.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use openshell_e2e::command::{self, Outcome};
use openshell_e2e::engine::{self, Engine, Setup};
use openshell_e2e::gateway::{Gateway, Settings};
pub(crate) use openshell_e2e::relay::Half;
use openshell_e2e::relay::Relay;
use openshell_e2e::{image, wait};
use rustix::process::Pid;
use serde_json::Value;
use tempfile::TempDir;

/// Long enough for a busy machine; nothing waits this long when all is well.
pub(crate) const PATIENCE: Duration = Duration::from_secs(40);
/// A main process that does nothing, well behaved.
pub(crate) const IDLE: &[&str] = &["sleep", "1000000"];

/// A gateway and what belongs to it; the gateway is the first to end.
pub(crate) struct World {
    pub(crate) gateway: Gateway,
    relay: Option<Relay>,
    engine: Option<Engine>,
    _directory: TempDir,
}

impl World {
    /// One with a namespace of its own. The name must be unique among the tests.
    pub(crate) fn new(name: &str) -> Self {
        Self::with(name, |_| ())
    }

    /// One with settings of its own.
    pub(crate) fn with(name: &str, change: impl FnOnce(&mut Settings)) -> Self {
        let (directory, mut settings) = place(name);
        change(&mut settings);
        Self::at(directory, settings, None, None)
    }

    /// One whose gateway reaches the engine through a relay, with more lines in its file.
    pub(crate) fn behind_relay(name: &str, more: &str) -> Self {
        let (directory, mut settings) = place(name);
        let socket = directory.path().join("relay.sock");
        let relay = Relay::start(&settings.engine, &socket).expect("a relay");
        settings.relay = Some(socket);
        more.clone_into(&mut settings.more);
        Self::at(directory, settings, Some(relay), None)
    }

    /// One on an engine of its own, which may end and come back, behind a relay. It needs no unique name.
    pub(crate) fn on_own_engine(live_restore: bool, change: impl FnOnce(&mut Settings)) -> Self {
        let setup = Setup {
            live_restore,
            ..Setup::default()
        };
        let engine = Engine::start(&engine::directory(), setup).expect("an engine");
        let recipe = image::Recipe::usual(image::TEST_IMAGE);
        image::import(&engine.host(), &recipe).expect("an image");
        let (directory, mut settings) = place_on("own", &engine.socket());
        let socket = directory.path().join("relay.sock");
        let relay = Relay::start(&settings.engine, &socket).expect("a relay");
        settings.relay = Some(socket);
        change(&mut settings);
        Self::at(directory, settings, Some(relay), Some(engine))
    }

    fn at(
        directory: TempDir,
        settings: Settings,
        relay: Option<Relay>,
        engine: Option<Engine>,
    ) -> Self {
        Self {
            gateway: Gateway::start(settings).expect("a gateway"),
            relay,
            engine,
            _directory: directory,
        }
    }

    /// What stands between the gateway and the engine.
    pub(crate) fn relay(&self) -> &Relay {
        self.relay.as_ref().expect("a world behind a relay")
    }

    /// Where the engine keeps what is in the workspace, so that it can be read while nobody answers.
    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        let mounts = self.inspect(&self.container(name, Half::Workload))["Mounts"].clone();
        let mounts = mounts.as_array().expect("mounts");
        let at = mounts.iter().find(|m| m["Destination"] == "/sandbox");
        let source = at.and_then(|m| m["Source"].as_str());
        source.expect("a workspace").into()
    }

    /// Its own engine.
    pub(crate) fn engine(&mut self) -> &mut Engine {
        self.engine.as_mut().expect("a world on its own engine")
    }

    /// Creates a sandbox and waits until it is ready.
    pub(crate) fn create(&self, name: &str, options: &[&str], main: &[&str]) {
        let outcome = self.try_create(name, options, main);
        assert_eq!(outcome.code, 0, "create: {}", outcome.errors());
    }

    /// As [`World::create`], however it ends.
    pub(crate) fn try_create(&self, name: &str, options: &[&str], main: &[&str]) -> Outcome {
        let mut words = vec!["sandbox", "create", "--name", name, "--detach"];
        words.extend(options);
        words.push("--");
        words.extend(main);
        self.run(&words)
    }

    /// Runs the CLI to its end.
    pub(crate) fn run(&self, words: &[&str]) -> Outcome {
        self.gateway.run(words).expect("the CLI runs and ends")
    }

    /// Runs the CLI, which must succeed.
    pub(crate) fn ok(&self, words: &[&str]) -> Outcome {
        self.gateway
            .ok(words)
            .unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Runs a shell script in a sandbox.
    pub(crate) fn shell(&self, name: &str, script: &str) -> Outcome {
        self.run(&[
            "sandbox",
            "exec",
            name,
            "--no-login-shell",
            "--",
            "sh",
            "-c",
            script,
        ])
    }

    /// As [`World::shell`]; must succeed; gives its stdout.
    pub(crate) fn said(&self, name: &str, script: &str) -> String {
        let outcome = self.shell(name, script).success();
        outcome.unwrap_or_else(|error| panic!("{error:#}")).text()
    }

    /// The record of a sandbox.
    pub(crate) fn record(&self, name: &str) -> Value {
        let outcome = self.ok(&["sandbox", "get", name, "-o", "json"]);
        outcome.json().expect("a record")
    }

    /// Its phase.
    pub(crate) fn phase(&self, name: &str) -> String {
        self.record(name)["phase"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Waits for a phase and gives the record that shows it.
    pub(crate) fn wait_phase(&self, name: &str, phase: &str, limit: Duration) -> Value {
        let mut last = Value::Null;
        let found = wait::until(&format!("{name} to be {phase}"), limit, || {
            last = self.record(name);
            Ok((last["phase"] == phase).then(|| last.clone()))
        });
        found.unwrap_or_else(|error| panic!("{error:#}; last seen: {last}"))
    }

    /// Waits until a run is Ready, and gives the record that shows it.
    pub(crate) fn wait_run(&self, name: &str, generation: u64) -> Value {
        let mut last = Value::Null;
        let what = format!("run {generation} of {name} to be Ready");
        let found = wait::until(&what, PATIENCE, || {
            last = self.record(name);
            let there = last["phase"] == "Ready" && last["generation"] == generation;
            Ok(there.then(|| last.clone()))
        });
        found.unwrap_or_else(|error| {
            panic!("{error:#}; last seen: {last}\n{}", self.events(name));
        })
    }

    /// The journal, entry by entry.
    pub(crate) fn journal(&self, name: &str) -> Vec<Value> {
        let journal = self.ok(&["sandbox", "events", name, "-o", "json"]);
        let journal = journal.json().expect("a journal");
        journal["events"].as_array().cloned().unwrap_or_default()
    }

    /// How many entries have this verdict and speak of this.
    pub(crate) fn judged(&self, name: &str, verdict: &str, of: &str) -> usize {
        let journal = self.journal(name);
        let fits = |entry: &&Value| {
            entry["verdict"] == verdict
                && entry["input"]
                    .as_str()
                    .is_some_and(|input| input.contains(of))
        };
        journal.iter().filter(fits).count()
    }

    /// Waits until there are so many of them.
    pub(crate) fn wait_judged(&self, name: &str, verdict: &str, of: &str, count: usize) {
        let what = format!("{count} entries {verdict:?} about {of:?}");
        let enough = || Ok((self.judged(name, verdict, of) >= count).then_some(()));
        if let Err(error) = wait::until(&what, PATIENCE, enough) {
            panic!("{error:#}; the journal:\n{}", self.events(name));
        }
    }

    /// The journal as text.
    pub(crate) fn events(&self, name: &str) -> String {
        self.ok(&["sandbox", "events", name]).text()
    }

    /// One of a sandbox's containers, by id.
    pub(crate) fn container(&self, name: &str, half: Half) -> String {
        let role = match half {
            Half::Workload => "sandbox",
            Half::Supervisor => "supervisor",
        };
        let mut docker = self.gateway.docker();
        docker.args(["ps", "-aq", "--no-trunc"]);
        for label in [
            format!(
                "openshell.ai/sandbox-namespace={}",
                self.gateway.settings().namespace
            ),
            format!("openshell.ai/sandbox-name={name}"),
            format!("openshell.ai/isolation-role={role}"),
        ] {
            docker.args(["--filter", &format!("label={label}")]);
        }
        let id = command::ok(&mut docker).expect("the engine answers").text();
        assert_eq!(
            id.lines().count(),
            1,
            "containers of {name} ({half:?}): {id:?}"
        );
        id
    }

    /// What the engine says of one half: since when it runs, or nothing if it does not.
    pub(crate) fn running_since(&self, name: &str, half: Half) -> Option<String> {
        let state = self.inspect(&self.container(name, half))["State"].clone();
        let since = state["StartedAt"].as_str().map(str::to_owned);
        since.filter(|_| state["Running"] == true)
    }

    /// Waits until a half does not run, by the engine's word.
    pub(crate) fn wait_gone(&self, name: &str, half: Half) {
        let gone = || Ok(self.running_since(name, half).is_none().then_some(()));
        wait::until("it to end", PATIENCE, gone)
            .unwrap_or_else(|error| panic!("{name}, {half:?}: {error:#}"));
    }

    /// The process of a half that runs, so that it can be signalled while no engine answers.
    pub(crate) fn process(&self, name: &str, half: Half) -> Pid {
        let seen = self.inspect(&self.container(name, half));
        let pid = seen["State"]["Pid"].as_i64();
        let pid = pid.and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw).expect("a process")
    }

    /// What the engine says about a container.
    pub(crate) fn inspect(&self, container: &str) -> Value {
        let outcome = self.docker(&["inspect", container]).json().expect("JSON");
        outcome[0].clone()
    }

    /// Runs the engine's client, which must succeed.
    pub(crate) fn docker(&self, words: &[&str]) -> Outcome {
        let outcome = command::ok(self.gateway.docker().args(words));
        outcome.unwrap_or_else(|error| panic!("{error:#}"))
    }

    /// Waits until main has noted so many runs, and sees that it has noted no more. Ready says that main was started,
    /// not that its shell has come to the line that notes it.
    pub(crate) fn wait_boots(&self, name: &str, runs: usize) {
        let container = self.container(name, Half::Workload);
        let path = format!("{container}:/sandbox/boots");
        let mut seen = 0;
        let noted = wait::until("main's notes", PATIENCE, || {
            let copied = command::run(self.gateway.docker().args(["cp", &path, "-"]))?;
            if copied.code == 0 {
                seen = self.file_by_engine(name, "/sandbox/boots").lines().count();
            }
            Ok((seen >= runs).then_some(()))
        });
        noted.unwrap_or_else(|error| panic!("{error:#}: {seen} of {runs}"));
        assert_eq!(seen, runs, "main has run more often than it was started");
    }

    /// A file of a sandbox, read past the gateway: by the engine, also from a container that does not run.
    pub(crate) fn file_by_engine(&self, name: &str, path: &str) -> String {
        let container = self.container(name, Half::Workload);
        let archive = self
            .docker(&["cp", &format!("{container}:{path}"), "-"])
            .stdout;
        let mut archive = tar::Archive::new(archive.as_slice());
        let mut entries = archive.entries().expect("an archive");
        let mut entry = entries.next().expect("an entry").expect("a sound entry");
        let mut text = String::new();
        std::io::Read::read_to_string(&mut entry, &mut text).expect("text");
        text
    }

    /// Deletes a sandbox.
    pub(crate) fn delete(&self, name: &str) {
        self.ok(&["sandbox", "delete", name]);
    }

    /// Nothing of this gateway's may be on the engine.
    pub(crate) fn nothing_is_left(&self) {
        let left = self.gateway.left_on_engine().expect("the engine answers");
        assert!(left.is_empty(), "left behind: {left:?}");
        let listed = self
            .ok(&["sandbox", "list", "-o", "json"])
            .json()
            .expect("a list");
        assert_eq!(
            listed["sandboxes"],
            Value::Array(Vec::new()),
            "records are left"
        );
    }
}

fn place(name: &str) -> (TempDir, Settings) {
    let (directory, mut settings) = place_on(name, &engine_socket());
    settings.driver = driver();
    (directory, settings)
}

fn place_on(name: &str, engine: &Path) -> (TempDir, Settings) {
    let directory = TempDir::new().expect("a temporary directory");
    let settings = Settings::for_test(&dist(), directory.path(), engine, name);
    (directory, settings.expect("settings"))
}

/// Where the release binaries are.
pub(crate) fn dist() -> PathBuf {
    let dist = std::env::var_os("OPENSHELL_E2E_DIST");
    dist.map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../target/dist")),
        PathBuf::from,
    )
}

/// Which engine the tests run on: the runner says `podman` for the second round.
pub(crate) fn driver() -> &'static str {
    match std::env::var("OPENSHELL_E2E_ENGINE").as_deref() {
        Ok("podman") => "podman",
        Ok("docker") | Err(_) => "docker",
        Ok(other) => panic!("OPENSHELL_E2E_ENGINE is {other:?}: docker or podman"),
    }
}

/// The private engine's.
pub(crate) fn engine_socket() -> PathBuf {
    let variable = match driver() {
        "podman" => "OPENSHELL_TEST_PODMAN_HOST",
        _ => "OPENSHELL_TEST_DOCKER_HOST",
    };
    let host = std::env::var(variable).expect(
        "these tests need a private engine: use `cargo xtask test` or `cargo xtask with-engine`",
    );
    host.strip_prefix("unix://").expect("a unix socket").into()
}

/// Makes an image on the engine.
pub(crate) fn make_image(recipe: &image::Recipe<'_>) {
    let host = format!("unix://{}", engine_socket().display());
    image::import(&host, recipe).expect("an image");
}

/// Seconds since boot: one clock for the host and for everything inside.
pub(crate) fn uptime() -> f64 {
    openshell_e2e::ticks::uptime().expect("a number")
}

/// The CLI as a command, for tests that hold its ends themselves.
pub(crate) fn cli(world: &World, words: &[&str]) -> Command {
    let mut cli = world.gateway.cli();
    cli.args(words);
    cli
}
