//! `logs`: what a sandbox and the gateway wrote about it.

use clap::{Args, ValueEnum};
use jiff::SignedDuration;
use openshell_proto::api;
use openshell_proto::api::sandbox_stream_event::Payload;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

use crate::clock;
use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{Format, out, printable, say};

use super::sandbox::args::NameArg;

/// A gateway that restarts is back within this.
const GATEWAY_AWAY: Duration = Duration::from_secs(60);

/// `openshell logs`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell logs demo\n  openshell logs demo --tail --since 5m\n  \
    openshell logs demo --source sandbox --level warn -o json"
)]
pub(crate) struct LogsArgs {
    #[command(flatten)]
    name: NameArg,
    /// Go on with what comes
    #[arg(short = 'f', long, visible_alias = "follow")]
    tail: bool,
    /// The last so many lines
    #[arg(short = 'n', long, value_name = "N", default_value_t = 200)]
    lines: u32,
    /// Not older than this: 30s, 5m, 2h, 1d
    #[arg(long, value_name = "SPAN", value_parser = clock::parse_span)]
    since: Option<SignedDuration>,
    /// Who wrote it
    #[arg(long, value_enum, default_value = "all")]
    source: Source,
    /// Not less important than this
    #[arg(long, value_enum)]
    level: Option<Level>,
    /// How to print each line; JSON is one object a line
    #[arg(short, long, value_enum, value_name = "FORMAT", default_value = "text")]
    output: LogFormat,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Source {
    All,
    Gateway,
    Sandbox,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Level {
    Error,
    Warn,
    Info,
    Debug,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum LogFormat {
    #[value(alias = "table")]
    Text,
    Json,
    Yaml,
}

#[derive(Serialize)]
struct LineView<'a> {
    time: Option<String>,
    source: &'a str,
    level: &'a str,
    target: &'a str,
    message: &'a str,
    fields: &'a BTreeMap<String, String>,
}

impl LogsArgs {
    /// Prints them.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        if self.tail {
            self.follow(&gateway).await?;
        } else {
            self.once(&gateway).await?;
        }
        Ok(Exit::Done)
    }

    fn since(&self) -> Option<prost_types::Timestamp> {
        let since = clock::now().checked_sub(self.since?).ok()?;
        Some(clock::to_wire(since))
    }

    fn sources(&self) -> Vec<String> {
        match self.source {
            Source::All => Vec::new(),
            Source::Gateway => vec!["gateway".to_owned()],
            Source::Sandbox => vec!["sandbox".to_owned()],
        }
    }

    fn level(&self) -> String {
        let name = self.level.map(|l| match l {
            Level::Error => "error",
            Level::Warn => "warn",
            Level::Info => "info",
            Level::Debug => "debug",
        });
        name.unwrap_or_default().to_owned()
    }

    fn failed(&self, gateway: &Gateway, status: &tonic::Status) -> CliError {
        gateway.failed(
            format!("the log of sandbox {:?} could not be read", self.name.name),
            status,
        )
    }

    async fn once(&self, gateway: &Gateway) -> CliResult<()> {
        let request = api::GetSandboxLogsRequest {
            workspace_scope: gateway.scope(),
            sandbox: self.name.name.clone(),
            lines: self.lines,
            since_time: self.since(),
            sources: self.sources(),
            min_level: self.level(),
        };
        let answer = gateway.api().get_sandbox_logs(request).await;
        let answer = answer.map_err(|s| self.failed(gateway, &s))?.into_inner();
        answer.logs.iter().try_for_each(|line| self.print(line))
    }

    /// Goes on where it was when the stream breaks, as long as the gateway comes back.
    async fn follow(&self, gateway: &Gateway) -> CliResult<()> {
        let mut cursor = String::new();
        let mut heard = tokio::time::Instant::now();
        loop {
            let resumed = !cursor.is_empty();
            let request = api::WatchSandboxRequest {
                workspace_scope: gateway.scope(),
                sandbox: self.name.name.clone(),
                follow_logs: true,
                log_tail_lines: if resumed { 0 } else { self.lines },
                since_time: if resumed { None } else { self.since() },
                log_sources: self.sources(),
                log_min_level: self.level(),
                resume_after_cursor: cursor.clone(),
                ..Default::default()
            };
            let broken = match gateway.api().watch_sandbox(request).await {
                Ok(answer) => {
                    heard = tokio::time::Instant::now();
                    self.print_all(answer.into_inner(), &mut cursor).await?
                }
                Err(status) => Some(status),
            };
            let Some(status) = broken else {
                return Ok(());
            };
            match status.code() {
                // Too much was missed: from here on, with a gap.
                tonic::Code::OutOfRange if resumed => {
                    say("some lines are missing here");
                    cursor.clear();
                }
                _ if std::error::Error::source(&status).is_none()
                    && status.code() != tonic::Code::Unavailable =>
                {
                    return Err(self.failed(gateway, &status));
                }
                _ if heard.elapsed() > GATEWAY_AWAY => return Err(self.failed(gateway, &status)),
                _ => tokio::time::sleep(Duration::from_millis(500)).await,
            }
        }
    }

    async fn print_all(
        &self,
        mut stream: tonic::Streaming<api::SandboxStreamEvent>,
        cursor: &mut String,
    ) -> CliResult<Option<tonic::Status>> {
        loop {
            match stream.message().await {
                Ok(Some(event)) => {
                    if !event.cursor.is_empty() {
                        *cursor = event.cursor;
                    }
                    match event.payload {
                        Some(Payload::Log(line)) => self.print(&line)?,
                        Some(Payload::Warning(warning)) => say(printable(&warning.message)),
                        _ => {}
                    }
                }
                Ok(None) => return Ok(None),
                Err(status) => return Ok(Some(status)),
            }
        }
    }

    fn print(&self, line: &api::SandboxLogLine) -> CliResult<()> {
        match self.output {
            LogFormat::Text => out(text(line)),
            LogFormat::Json => {
                let json = serde_json::to_string(&view(line));
                out(json.map_err(|e| {
                    CliError::local("the result could not be written").why(e.to_string())
                })?);
            }
            LogFormat::Yaml => out(format_args!(
                "---\n{}",
                crate::output::encode(&view(line), Format::Yaml)?
            )),
        }
        Ok(())
    }
}

fn view(line: &api::SandboxLogLine) -> LineView<'_> {
    LineView {
        time: clock::from_wire(line.event_time.as_ref()).map(clock::rfc3339),
        source: &line.source,
        level: &line.level,
        target: &line.target,
        message: &line.message,
        fields: &line.fields,
    }
}

/// One line; what others wrote is made harmless.
fn text(line: &api::SandboxLogLine) -> String {
    let time =
        clock::from_wire(line.event_time.as_ref()).map_or_else(|| "-".to_owned(), clock::rfc3339);
    let mut text = format!(
        "{time}  {:<5}  {:<7}  {}: {}",
        line.level, line.source, line.target, line.message
    );
    for (key, value) in &line.fields {
        text.push_str(&format!(" {key}={value}"));
    }
    printable(&text)
}

#[cfg(test)]
mod tests {
    //! Log lines as people read them.
    use super::*;

    #[test]
    fn a_line_shows_time_level_source_and_fields_and_no_escape_sequence() {
        let line = api::SandboxLogLine {
            level: "warn".into(),
            source: "sandbox".into(),
            target: "egress".into(),
            message: "denied \u{1b}[31m".into(),
            fields: [("binary".to_owned(), "/bin/wget".to_owned())].into(),
            ..Default::default()
        };
        assert_eq!(
            text(&line),
            "-  warn   sandbox  egress: denied \u{fffd}[31m binary=/bin/wget"
        );
    }
}
