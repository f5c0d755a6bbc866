//! The sandboxes of a soak: what their users have asked for last, and whether they are so.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use openshell_e2e::ticks::{Ticks, uptime};
use openshell_e2e::{command, wait};
use serde_json::Value;

use super::place::Place;

const COUNT: usize = 10;
const POLICIES: [&str; 3] = ["never", "on-failure", "always"];
const MAIN: &str = "echo $$ > /sandbox/pid; while :; do cut -d' ' -f1 /proc/uptime >> /sandbox/ticks; usleep 100000; done";
/// Nothing takes this long when all is well.
const PATIENCE: Duration = Duration::from_secs(90);
/// A pause of this length is one in which a main did not run; a busy machine makes shorter ones.
const GAP: f64 = 2.0;

/// What a user asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verb {
    Stop,
    Start,
    Restart,
    /// And to be created again.
    Delete,
}

/// What its user wants of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wish {
    Running,
    Stopped,
    Anew,
}

#[derive(Debug)]
pub(super) struct Sandbox {
    pub(super) name: String,
    policy: &'static str,
    wish: Wish,
    /// Something was done to it since it was last seen to be as its user asked.
    disturbed: bool,
    /// Its run was ended: it is right only in a later one.
    ended: Option<u64>,
    /// Where it ticks, and since when without a pause.
    ticks: Option<(PathBuf, f64)>,
}

#[derive(Debug)]
pub(super) struct Boxes(pub(super) Vec<Sandbox>);

impl Default for Boxes {
    fn default() -> Self {
        let one = |index: usize| Sandbox {
            name: format!("box-{index}"),
            policy: POLICIES[index % POLICIES.len()],
            wish: Wish::Running,
            disturbed: true,
            ended: None,
            ticks: None,
        };
        Self((0..COUNT).map(one).collect())
    }
}

impl Sandbox {
    fn create(&self, place: &Place) -> Result<()> {
        let words = [
            "sandbox",
            "create",
            "--name",
            &self.name,
            "--restart-policy",
            self.policy,
            "--detach",
            "--no-wait",
            "--",
            "sh",
            "-c",
            MAIN,
        ];
        place.gateway.ok(&words).map(drop)
    }

    /// Asks for something, and does not wait for it.
    pub(super) fn ask(&mut self, place: &Place, verb: Verb) -> Result<()> {
        let (word, wish) = match verb {
            Verb::Stop => ("stop", Wish::Stopped),
            Verb::Start => ("start", Wish::Running),
            Verb::Restart => ("restart", Wish::Running),
            Verb::Delete => ("delete", Wish::Anew),
        };
        // Nothing revives what is being deleted.
        if self.wish == Wish::Anew {
            return Ok(());
        }
        place
            .gateway
            .ok(&["sandbox", word, &self.name, "--no-wait"])?;
        self.wish = wish;
        self.ended = None;
        self.disturb();
        Ok(())
    }

    pub(super) fn disturb(&mut self) {
        self.disturbed = true;
        self.ticks = None;
    }

    /// Its run is about to be ended behind the gateway's back.
    pub(super) fn end_run(&mut self, place: &Place) -> Result<()> {
        let record = place
            .gateway
            .ok(&["sandbox", "get", &self.name, "-o", "json"])?;
        self.ended = record.json()?["generation"].as_u64();
        self.disturb();
        Ok(())
    }

    /// Whether it is meant to run, and does as far as is known.
    pub(super) fn runs(&self) -> bool {
        self.wish == Wish::Running && !self.disturbed
    }

    /// Whether it is as its user asked; where that needs another word of the user's, it is said.
    fn is_right(&mut self, place: &Place, record: Option<&Value>) -> Result<bool> {
        let phase = record.map(|r| r["phase"].as_str().unwrap_or_default());
        match (self.wish, phase) {
            (Wish::Running, Some("Ready")) => {
                let run = record.and_then(|r| r["generation"].as_u64());
                Ok(self.ended.is_none_or(|ended| run > Some(ended)))
            }
            (Wish::Stopped, Some("Stopped")) => Ok(true),
            (Wish::Anew, None) => {
                self.create(place)?;
                self.wish = Wish::Running;
                Ok(false)
            }
            (Wish::Running, Some("Error")) if self.policy == "never" && self.disturbed => {
                place
                    .gateway
                    .ok(&["sandbox", "start", &self.name, "--no-wait"])?;
                Ok(false)
            }
            (_, Some("Error")) => bail!(
                "{} has failed: {}",
                self.name,
                record.map(ToString::to_string).unwrap_or_default()
            ),
            (Wish::Running | Wish::Stopped, None) => bail!("{} is gone", self.name),
            _ => Ok(false),
        }
    }

    /// Whether main has run without a pause since it was left alone.
    fn has_ticked(&mut self, place: &Place) -> Result<()> {
        let Some((workspace, since)) = &self.ticks else {
            self.ticks = Some((place.workspace(&self.name)?, uptime()?));
            return Ok(());
        };
        let ticks = Ticks::on_disk(workspace);
        let pause = ticks.longest_pause(*since).max(uptime()? - ticks.last());
        if pause > GAP {
            self.ticks = None;
            bail!(
                "{} was left alone and has paused for {pause:.1} s",
                self.name
            );
        }
        Ok(())
    }
}

impl Boxes {
    pub(super) fn create(&self, place: &Place) -> Result<()> {
        self.0.iter().try_for_each(|one| one.create(place))
    }

    /// Has all run.
    pub(super) fn all_run(&mut self, place: &Place) -> Result<()> {
        for one in &mut self.0 {
            if one.wish == Wish::Stopped {
                one.ask(place, Verb::Start)?;
            }
        }
        Ok(())
    }

    /// Waits until each is as its user asked, the engine agrees, and each is watched once; and looks into the ticks
    /// of those that were left alone.
    pub(super) fn settle(&mut self, place: &Place) -> Result<()> {
        let mut last = String::new();
        let settled = wait::until("all to be as it was asked", PATIENCE, || {
            let found = self.look(place)?;
            let right = found.is_none();
            last = found.unwrap_or_default();
            if !right {
                wait::pause(Duration::from_millis(100));
            }
            Ok(right.then_some(()))
        });
        let ticked: Vec<String> = self
            .0
            .iter_mut()
            .filter(|b| b.wish == Wish::Running)
            .filter_map(|one| one.has_ticked(place).err())
            .map(|error| format!("{error:#}"))
            .collect();
        settled.with_context(|| format!("{last}\n{}", self.journals(place)))?;
        for one in &mut self.0 {
            one.disturbed = false;
            one.ended = None;
        }
        if !ticked.is_empty() {
            bail!("{}", ticked.join("; "));
        }
        Ok(())
    }

    /// What is not right yet.
    fn look(&mut self, place: &Place) -> Result<Option<String>> {
        let records = place.records()?;
        for one in &mut self.0 {
            let record = records.iter().find(|r| r["name"] == one.name.as_str());
            if !one.is_right(place, record)? {
                return Ok(Some(format!("{one:?}: {record:?}")));
            }
        }
        let containers = place.containers()?;
        for one in &self.0 {
            let its = containers.iter().filter(|c| c.sandbox == one.name);
            let running = its.clone().filter(|c| c.running).count();
            let agrees = match one.wish {
                Wish::Running => (its.count(), running) == (2, 2),
                _ => its.count() <= 1 && running == 0,
            };
            if !agrees {
                return Ok(Some(format!("the engine does not agree about {one:?}")));
            }
        }
        Ok(place.watched_once().err().map(|error| format!("{error:#}")))
    }

    /// The end of the journal of each that is not as it should be.
    fn journals(&self, place: &Place) -> String {
        let records = place.records().unwrap_or_default();
        let wrong = self.0.iter().filter(|one| {
            let record = records.iter().find(|r| r["name"] == one.name.as_str());
            let phase = record.and_then(|r| r["phase"].as_str());
            phase != Some("Ready") && phase != Some("Stopped")
        });
        let journal = |one: &Sandbox| {
            let told = command::run(&mut place.cli(&["sandbox", "events", &one.name]));
            let told = told.map(|outcome| outcome.text()).unwrap_or_default();
            let lines: Vec<&str> = told.lines().collect();
            lines[lines.len().saturating_sub(30)..].join("\n")
        };
        wrong.map(journal).collect::<Vec<_>>().join("\n\n")
    }
}
