//! The main job, command by command, each printed before it runs.

use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use openshell_e2e::gateway::{Settings, cli};
use openshell_e2e::{command as run, wait};

use super::place::IMAGE;
use crate::say;

const SANDBOX: &str = "demo";
const PHOENIX: &str = "phoenix";
/// Fails once: the second run finds the line of the first.
const FAILS_ONCE: &str = "echo run >> /sandbox/boots; [ $(wc -l < /sandbox/boots) -ge 2 ] || exit 17; exec sleep 1000000";

pub(super) fn run(settings: &Settings) -> Result<()> {
    let tour = Tour { settings };
    tour.clear_the_last_one()?;
    tour.create_and_look()?;
    tour.egress_is_denied()?;
    tour.stop_and_start()?;
    tour.restart_on_failure()
}

struct Tour<'a> {
    settings: &'a Settings,
}

impl Tour<'_> {
    fn cli(&self) -> Command {
        let mut cli = cli(self.settings);
        cli.env_remove("NO_COLOR");
        cli
    }

    /// Shows a command, runs it with its output on the terminal, and returns its exit code.
    fn show(&self, words: &[&str]) -> Result<i32> {
        let mut shown = Command::new("openshell");
        say::command(&run::line(shown.args(words)));
        let mut cli = self.cli();
        let status = cli
            .args(words)
            .stdin(std::process::Stdio::null())
            .status()?;
        Ok(run::exit_code(status))
    }

    fn show_ok(&self, words: &[&str]) -> Result<()> {
        let code = self.show(words)?;
        ensure!(
            code == 0,
            "`openshell {}` ended with {code}",
            words.join(" ")
        );
        Ok(())
    }

    fn ask(&self, words: &[&str]) -> Result<run::Outcome> {
        run::run(self.cli().args(words))
    }

    /// A second demo begins like the first.
    fn clear_the_last_one(&self) -> Result<()> {
        for name in [SANDBOX, PHOENIX] {
            if self.ask(&["sandbox", "get", name])?.code == 0 {
                self.ask(&["sandbox", "delete", name])?.success()?;
            }
        }
        Ok(())
    }

    fn create_and_look(&self) -> Result<()> {
        say::step("a sandbox");
        self.show_ok(&["status"])?;
        let main = "echo main runs; exec sleep 1000000";
        self.show_ok(&[
            "sandbox", "create", "--name", SANDBOX, "--from", IMAGE, "--detach", "--", "sh", "-c",
            main,
        ])?;
        self.show_ok(&["sandbox", "list"])?;
        let note = "id; echo 'written in the first run' > /sandbox/note; cat /sandbox/note";
        self.show_ok(&["sandbox", "exec", SANDBOX, "--", "sh", "-c", note])
    }

    fn egress_is_denied(&self) -> Result<()> {
        say::step("the world outside is out of reach, and each attempt is on record");
        // A documentation address (RFC 5737): nobody has it, and nothing leaves the sandbox anyway.
        let code = self.show(&["sandbox", "exec", SANDBOX, "--", "nc", "198.51.100.7", "80"])?;
        ensure!(code != 0, "a connection to the outside was not refused");
        say::line("(refused, as it must be)");
        self.show_ok(&["logs", SANDBOX])
    }

    fn stop_and_start(&self) -> Result<()> {
        say::step("stopped and started: the same sandbox, the same files");
        let before = self.id()?;
        self.show_ok(&["sandbox", "stop", SANDBOX])?;
        self.show_ok(&["sandbox", "start", SANDBOX])?;
        self.show_ok(&["sandbox", "exec", SANDBOX, "--", "cat", "/sandbox/note"])?;
        let after = self.id()?;
        ensure!(before == after, "the id changed from {before} to {after}");
        say::line(&format!("(the id is the same as before: {after})"));
        self.show_ok(&["sandbox", "events", SANDBOX])
    }

    fn id(&self) -> Result<String> {
        let record = self
            .ask(&["sandbox", "get", SANDBOX, "-o", "json"])?
            .success()?
            .json()?;
        Ok(record["id"]
            .as_str()
            .context("a record without id")?
            .to_owned())
    }

    fn restart_on_failure(&self) -> Result<()> {
        say::step("a main process that fails once is started again");
        self.show_ok(&[
            "sandbox",
            "create",
            "--name",
            PHOENIX,
            "--from",
            IMAGE,
            "--restart-policy",
            "on-failure",
            "--detach",
            "--",
            "sh",
            "-c",
            FAILS_ONCE,
        ])?;
        let boots = ["sandbox", "exec", PHOENIX, "--", "cat", "/sandbox/boots"];
        wait::until("the second run", Duration::from_secs(30), || {
            let seen = self.ask(&boots)?;
            Ok((seen.code == 0 && seen.text().lines().count() == 2).then_some(()))
        })?;
        self.show_ok(&boots)?;
        self.show_ok(&["sandbox", "get", PHOENIX])?;
        self.show_ok(&["sandbox", "events", PHOENIX])
    }
}
