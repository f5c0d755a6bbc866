//! `doctor`: everything that has to be right, checked from this side, and then as the gateway sees it; each
//! with the fix. Works without a gateway, too.

use clap::Args;
use serde::Serialize;

use crate::connect::Target;
use crate::error::CliResult;
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{Format, OutputArgs, out, print, printable};

mod certificates;
mod engine;
mod gateway;
mod kernel;
mod port;

/// `openshell doctor`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell doctor\n  openshell doctor -o json\n\n\
    The exit code is 1 if something is broken (✗), 0 if there are only remarks (!)."
)]
pub(crate) struct DoctorArgs {
    #[command(flatten)]
    output: OutputArgs,
    // `openshell doctor check` is what users of the published program type.
    #[arg(hide = true, value_parser = ["check"])]
    verb: Option<String>,
}

/// How a check went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warning,
    Failed,
}

/// One check.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
struct Check {
    check: String,
    status: Verdict,
    message: String,
    /// A command or a sentence; empty if all is well.
    fix: String,
}

#[derive(Serialize)]
struct Report {
    checks: Vec<Check>,
    healthy: bool,
}

impl Check {
    fn new(
        check: &str,
        status: Verdict,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) -> Self {
        Self {
            check: check.to_owned(),
            status,
            message: message.into(),
            fix: fix.into(),
        }
    }

    fn ok(check: &str, message: impl Into<String>) -> Self {
        Self::new(check, Verdict::Ok, message, "")
    }

    fn warning(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, Verdict::Warning, message, fix)
    }

    fn failed(check: &str, message: impl Into<String>, fix: impl Into<String>) -> Self {
        Self::new(check, Verdict::Failed, message, fix)
    }

    fn line(&self) -> String {
        let (mark, color) = match self.status {
            Verdict::Ok => ("✓", anstyle::AnsiColor::Green),
            Verdict::Warning => ("!", anstyle::AnsiColor::Yellow),
            Verdict::Failed => ("✗", anstyle::AnsiColor::Red),
        };
        let style = anstyle::Style::new().fg_color(Some(color.into()));
        let mut line = format!(
            "{style}{mark}{style:#} {:<14} {}",
            self.check,
            printable(&self.message)
        );
        if !self.fix.is_empty() {
            line.push_str(&format!("\n  {:<14} fix: {}", "", printable(&self.fix)));
        }
        line
    }
}

impl DoctorArgs {
    /// Checks everything; nothing is changed.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let target = Target::resolve(global);
        let mut checks = engine::check();
        checks.extend(kernel::check());
        match &target {
            Ok(target) => {
                checks.extend(certificates::check(target));
                checks.extend(gateway::check(target, global).await);
            }
            Err(error) => {
                checks.push(Check::warning(
                    "gateway",
                    error.what.clone(),
                    error.hint.clone(),
                ));
                checks.push(port::check_default());
            }
        }
        defer_to_gateway(&mut checks);
        let broken = checks.iter().any(|c| c.status == Verdict::Failed);
        let report = Report {
            checks,
            healthy: !broken,
        };
        if self.output.output == Format::Table {
            report.checks.iter().for_each(|c| out(c.line()));
        } else {
            print(&report, self.output.output, || names(&report), String::new)?;
        }
        Ok(if broken { Exit::Local } else { Exit::Done })
    }
}

/// With `-o name`: what is not well.
fn names(report: &Report) -> String {
    let bad = report.checks.iter().filter(|c| c.status != Verdict::Ok);
    bad.map(|c| c.check.as_str()).collect::<Vec<_>>().join("\n")
}

/// The gateway talks to the engine, not this user: if it says that all is well there, our own failure to
/// reach the socket breaks nothing.
fn defer_to_gateway(checks: &mut [Check]) {
    let well = checks
        .iter()
        .any(|c| c.check == gateway::ENGINE && c.status == Verdict::Ok);
    if !well {
        return;
    }
    for check in checks.iter_mut() {
        if is_engine(&check.check) && check.status == Verdict::Failed {
            check.status = Verdict::Warning;
            check
                .message
                .push_str(" (the gateway reaches its engine all the same)");
        }
    }
}

fn is_engine(check: &str) -> bool {
    [engine::DOCKER.name, engine::PODMAN.name].contains(&check)
}

#[cfg(test)]
mod tests;
