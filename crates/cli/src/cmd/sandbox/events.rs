//! `sandbox events`: the lifecycle journal.

use clap::Args;
use openshell_proto::plus;
use serde::Serialize;

use crate::clock;
use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{Format, OutputArgs, Table, out, print, printable};

use super::args::NameArg;

/// `openshell sandbox events`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox events demo\n  openshell sandbox events demo --follow\n  \
    openshell sandbox events demo -n 20 -o json\n\n\
    Observations that were found stale are shown as well, with their verdict."
)]
pub(crate) struct EventsArgs {
    #[command(flatten)]
    name: NameArg,
    /// Go on with what comes
    #[arg(short, long)]
    follow: bool,
    /// Only the last so many
    #[arg(
        short = 'n',
        long,
        value_name = "N",
        default_value_t = 0,
        hide_default_value = true
    )]
    tail: u32,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct EventView {
    sequence: u64,
    time: Option<String>,
    generation: u64,
    input: String,
    verdict: String,
    old_phase: Option<String>,
    new_phase: String,
    reason: String,
    message: String,
}

#[derive(Serialize)]
struct EventList {
    events: Vec<EventView>,
    next_page_token: &'static str,
}

impl EventsArgs {
    /// Shows it: as one table or list; with --follow line by line (JSON: one object a line).
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let name = &self.name.name;
        let gateway = Gateway::connect(global).await?;
        let request = plus::ListEventsRequest {
            workspace_scope: gateway.scope(),
            sandbox: name.clone(),
            follow: self.follow,
            tail: self.tail,
        };
        let failed = |s: &tonic::Status| {
            gateway.failed(
                format!("the events of sandbox {name:?} could not be read"),
                s,
            )
        };
        let stream = gateway.plus().list_events(request).await;
        let mut stream = stream.map_err(|s| failed(&s))?.into_inner();
        let mut events = Vec::new();
        while let Some(entry) = stream.message().await.map_err(|s| failed(&s))? {
            let event = EventView::new(entry);
            if self.follow {
                event.print_line(self.output.output)?;
            } else {
                events.push(event);
            }
        }
        if self.follow {
            return Ok(Exit::Done);
        }
        let list = EventList {
            events,
            next_page_token: "",
        };
        let numbers = || {
            list.events
                .iter()
                .map(|e| e.sequence.to_string())
                .collect::<Vec<_>>()
                .join("\n")
        };
        print(&list, self.output.output, numbers, || {
            as_table(&list.events)
        })?;
        Ok(Exit::Done)
    }
}

impl EventView {
    fn new(entry: plus::JournalEntry) -> Self {
        Self {
            sequence: entry.sequence,
            time: clock::from_wire(entry.time.as_ref()).map(clock::rfc3339),
            generation: entry.generation,
            input: entry.input,
            verdict: entry.verdict,
            old_phase: Some(entry.old_phase).filter(|p| !p.is_empty()),
            new_phase: entry.new_phase,
            reason: entry.reason,
            message: entry.message,
        }
    }

    fn phases(&self) -> String {
        match &self.old_phase {
            Some(old) if *old == self.new_phase => self.new_phase.clone(),
            Some(old) => format!("{old} → {}", self.new_phase),
            None => format!("→ {}", self.new_phase),
        }
    }

    fn cells(&self) -> [String; 7] {
        [
            self.time.clone().unwrap_or_default(),
            self.generation.to_string(),
            self.input.clone(),
            self.verdict.clone(),
            self.phases(),
            self.reason.clone(),
            self.message.clone(),
        ]
    }

    fn print_line(&self, format: Format) -> CliResult<()> {
        match format {
            Format::Table | Format::Name => {
                let [time, generation, input, verdict, phases, reason, message] =
                    self.cells().map(|c| printable(&c));
                out(format_args!(
                    "{time}  {generation:>3}  {input:<32}  {verdict:<12}  {phases:<24}  {reason:<22}  {message}"
                ));
            }
            Format::Json | Format::Yaml => {
                let line = serde_json::to_string(self);
                out(line.map_err(|e| {
                    CliError::local("the result could not be written").why(e.to_string())
                })?);
            }
        }
        Ok(())
    }
}

fn as_table(events: &[EventView]) -> String {
    let mut table = Table::new(&[
        "TIME", "RUN", "INPUT", "VERDICT", "PHASE", "REASON", "MESSAGE",
    ]);
    for event in events {
        table.row(event.cells());
    }
    table.render()
}

#[cfg(test)]
mod tests {
    //! The journal as people read it.
    use super::*;

    #[test]
    fn the_journal_shows_what_came_in_and_what_was_made_of_it() {
        let entry = |sequence, old: &str, new: &str, verdict: &str| plus::JournalEntry {
            sequence,
            time: Some(prost_types::Timestamp {
                seconds: 1_760_000_000,
                nanos: 5_000_000,
            }),
            generation: 1,
            input: "command stop".into(),
            verdict: verdict.into(),
            old_phase: old.into(),
            new_phase: new.into(),
            reason: "StopRequested".into(),
            message: "asked by its user".into(),
        };
        let events = [
            entry(1, "", "Provisioning", "accepted"),
            entry(2, "Ready", "Stopping", "accepted"),
            entry(3, "Stopped", "Stopped", "stale"),
        ]
        .map(EventView::new);
        insta::assert_snapshot!(as_table(&events), @r"
        TIME                      RUN  INPUT         VERDICT   PHASE             REASON         MESSAGE
        2025-10-09T08:53:20.005Z  1    command stop  accepted  → Provisioning    StopRequested  asked by its user
        2025-10-09T08:53:20.005Z  1    command stop  accepted  Ready → Stopping  StopRequested  asked by its user
        2025-10-09T08:53:20.005Z  1    command stop  stale     Stopped           StopRequested  asked by its user
        ");
    }
}
