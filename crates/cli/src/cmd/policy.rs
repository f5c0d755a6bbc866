//! `policy`: what can be said about a policy file without a gateway.

use std::io::Read as _;

use clap::{Args, Subcommand, ValueHint};
use openshell_policy::{Checked, LARGEST, Policy, Problem, document::Document};
use serde::Serialize;

use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::output::{Format, OutputArgs, fields, out, printable, say};

/// `openshell policy`
#[derive(Debug, Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Whether a policy file is valid, and what it says; needs no gateway
    Check(CheckArgs),
}

/// `openshell policy check`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    openshell policy check policy.yaml\n  \
    openshell policy check - < policy.yaml\n  \
    openshell policy check policy.yaml -o json\n  \
    openshell policy check policy.yaml -o yaml    # its normal form, and no more\n\n\
    The exit code is 0 if the file is valid, with or without remarks, and 2 if it is not.\n\
    A valid file is not enforced by being checked; so far no gateway enforces policies.")]
struct CheckArgs {
    /// The file; `-` for stdin
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: String,
    #[command(flatten)]
    output: OutputArgs,
}

/// What a program is told.
#[derive(Serialize)]
struct Report {
    file: String,
    valid: bool,
    problems: Vec<Problem>,
    remarks: Vec<Problem>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hash: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    policy: Option<Document>,
}

impl PolicyArgs {
    pub(crate) fn run(self) -> CliResult<Exit> {
        match self.verb {
            Verb::Check(args) => args.run(),
        }
    }
}

impl CheckArgs {
    fn run(self) -> CliResult<Exit> {
        let text = read(&self.file)?;
        let outcome = Policy::parse(&text);
        match (self.output.output, outcome) {
            (Format::Json, outcome) => {
                let report = report(self.file, outcome);
                let exit = if report.valid {
                    Exit::Done
                } else {
                    Exit::Usage
                };
                out(crate::output::encode(&report, Format::Json)?);
                Ok(exit)
            }
            (_, Err(problems)) => Err(refused(&self.file, &problems.0)),
            (format, Ok(checked)) => {
                for remark in &checked.remarks {
                    say(format!(
                        "remark: {}: {}",
                        printable(&self.file),
                        printable(&remark.to_string())
                    ));
                }
                show(&self.file, &checked.policy, format)
            }
        }
    }
}

/// Everything that is wrong, one a line, each with its place.
fn refused(file: &str, problems: &[Problem]) -> CliError {
    let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
    CliError::usage(format!("{file} is not a valid policy")).why(lines.join("\n"))
}

fn report(file: String, outcome: Result<Checked, openshell_policy::Problems>) -> Report {
    match outcome {
        Ok(checked) => Report {
            file,
            valid: true,
            problems: Vec::new(),
            remarks: checked.remarks,
            hash: Some(checked.policy.hash()),
            policy: Some(checked.policy.document()),
        },
        Err(problems) => Report {
            file,
            valid: false,
            problems: problems.0,
            remarks: Vec::new(),
            hash: None,
            policy: None,
        },
    }
}

fn show(file: &str, policy: &Policy, format: Format) -> CliResult<Exit> {
    let text = match format {
        Format::Yaml => crate::output::encode(&policy.document(), Format::Yaml)?,
        Format::Name => policy.rules.keys().cloned().collect::<Vec<_>>().join("\n"),
        _ => summary(file, policy),
    };
    if !text.is_empty() {
        out(text);
    }
    Ok(Exit::Done)
}

fn summary(file: &str, policy: &Policy) -> String {
    let endpoints = policy
        .rules
        .values()
        .map(|rule| rule.endpoints.len())
        .sum::<usize>();
    let paths = |list: fn(&openshell_policy::Filesystem) -> usize| {
        policy.filesystem.as_ref().map_or(0, list)
    };
    let network = match policy.rules.len() {
        0 => "no rules: nothing is reached".to_owned(),
        rules => format!("{rules} rules, {endpoints} endpoints"),
    };
    let files = format!(
        "{} paths to read, {} to write",
        paths(|f| f.read_only.len()),
        paths(|f| f.read_write.len())
    );
    fields(&[
        ("File", file.to_owned()),
        ("Valid", "yes".to_owned()),
        ("Files", files),
        ("Network", network),
        ("Hash", policy.hash()),
    ])
}

/// The text of a file or of stdin; not more of it than a policy can have, however long it is.
fn read(file: &str) -> CliResult<String> {
    let failed =
        |e: std::io::Error| CliError::local(format!("{file} cannot be read")).why(e.to_string());
    let most = LARGEST as u64 + 1;
    let mut bytes = Vec::new();
    if file == "-" {
        std::io::stdin().lock().take(most).read_to_end(&mut bytes)
    } else {
        let opened = std::fs::File::open(file).map_err(failed)?;
        opened.take(most).read_to_end(&mut bytes)
    }
    .map_err(failed)?;
    if bytes.len() > LARGEST {
        return Err(CliError::usage(format!("{file} is not a valid policy"))
            .why(format!("it is larger than {LARGEST} bytes")));
    }
    String::from_utf8(bytes).map_err(|e| {
        let line = 1 + e.as_bytes()[..e.utf8_error().valid_up_to()]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        CliError::usage(format!("{file} is not a valid policy"))
            .why(format!("line {line}: this is not UTF-8"))
    })
}
