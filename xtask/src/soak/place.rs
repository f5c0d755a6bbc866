//! Where a soak happens: an engine of its own under which containers live on, a relay, one gateway.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use openshell_e2e::command;
use openshell_e2e::engine::{Engine, Setup};
use openshell_e2e::gateway::{Gateway, Settings};
use openshell_e2e::relay::{Calls, Half, Relay};
use serde_json::Value;
use tempfile::TempDir;

use crate::with_engine;

/// The gateway is the first to end.
pub(super) struct Place {
    pub(super) gateway: Gateway,
    pub(super) relay: Relay,
    pub(super) engine: Engine,
    _directory: TempDir,
}

/// One container, by the engine's own word.
pub(super) struct Container {
    pub(super) id: String,
    pub(super) sandbox: String,
    pub(super) half: Half,
    pub(super) running: bool,
}

impl Place {
    pub(super) fn make(dist: &Path) -> Result<Self> {
        let setup = Setup {
            live_restore: true,
            ..Setup::default()
        };
        let engine = with_engine::start_with(setup)?;
        let directory = TempDir::new().context("no temporary directory")?;
        let mut settings = Settings::for_test(dist, directory.path(), &engine.socket(), "soak")?;
        let socket = directory.path().join("relay.sock");
        let relay = Relay::start(&engine.socket(), &socket)?;
        settings.relay = Some(socket);
        Ok(Self {
            gateway: Gateway::start(settings)?,
            relay,
            engine,
            _directory: directory,
        })
    }

    /// Every record, or why the gateway does not tell.
    pub(super) fn records(&self) -> Result<Vec<Value>> {
        let listed = self
            .gateway
            .ok(&["sandbox", "list", "-o", "json"])?
            .json()?;
        let records = listed["sandboxes"].as_array().cloned();
        records.context("a list without sandboxes")
    }

    /// What the engine's client says.
    pub(super) fn docker(&self, words: &[&str]) -> Result<String> {
        Ok(command::ok(self.gateway.docker().args(words))?.text())
    }

    pub(super) fn containers(&self) -> Result<Vec<Container>> {
        let format = r#"{{.ID}} {{.Label "openshell.ai/sandbox-name"}} {{.Label "openshell.ai/isolation-role"}} {{.State}}"#;
        let filter = "label=openshell.ai/sandbox-namespace=soak";
        let listed = self.docker(&[
            "ps",
            "-a",
            "--no-trunc",
            "--filter",
            filter,
            "--format",
            format,
        ])?;
        listed.lines().map(container).collect()
    }

    /// The process of one half, as the machine numbers it.
    pub(super) fn process(&self, sandbox: &str, half: Half) -> Result<i32> {
        let all = self.containers()?;
        let its = all
            .iter()
            .find(|c| c.sandbox == sandbox && c.half == half && c.running);
        let its = its.with_context(|| format!("{sandbox} has no {half:?} that runs"))?;
        let pid = self.docker(&["inspect", "--format", "{{.State.Pid}}", &its.id])?;
        pid.parse().context("not a process id")
    }

    /// Each running half has one wait, nothing else has any, and there is one stream of events.
    pub(super) fn watched_once(&self) -> Result<()> {
        let containers = self.containers()?;
        let running = containers.iter().filter(|c| c.running);
        for container in running {
            let waits = Calls::waits()
                .sandbox(&container.sandbox)
                .of(container.half);
            let count = self.relay.under_way(&waits);
            if count != 1 {
                bail!(
                    "{} ({:?}) has {count} waits",
                    container.sandbox,
                    container.half
                );
            }
        }
        let waits = self.relay.under_way(&Calls::waits());
        let running = containers.iter().filter(|c| c.running).count();
        let events = self.relay.under_way(&Calls::events());
        if waits != running || events != 1 {
            bail!("{waits} waits for {running} containers, {events} streams of events");
        }
        Ok(())
    }

    /// Where the engine keeps a workspace.
    pub(super) fn workspace(&self, sandbox: &str) -> Result<PathBuf> {
        let all = self.containers()?;
        let its = all
            .iter()
            .find(|c| c.sandbox == sandbox && c.half == Half::Workload);
        let its = its.with_context(|| format!("{sandbox} has no container"))?;
        let format =
            r#"{{range .Mounts}}{{if eq .Destination "/sandbox"}}{{.Source}}{{end}}{{end}}"#;
        let source = self.docker(&["inspect", "--format", format, &its.id])?;
        Ok(PathBuf::from(source))
    }

    /// The command line, pointed at the gateway.
    pub(super) fn cli(&self, words: &[&str]) -> Command {
        let mut cli = self.gateway.cli();
        cli.args(words);
        cli
    }
}

fn container(line: &str) -> Result<Container> {
    let words: Vec<&str> = line.split(' ').collect();
    let [id, sandbox, role, state] = words[..] else {
        bail!("not as asked for: {line:?}");
    };
    Ok(Container {
        id: id.to_owned(),
        sandbox: sandbox.to_owned(),
        half: if role == "sandbox" {
            Half::Workload
        } else {
            Half::Supervisor
        },
        running: state == "running",
    })
}
