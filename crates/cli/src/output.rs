//! Results on stdout, talk on stderr: formats, tables, and the two writers.

use std::fmt::Display;
use std::io::{self, Write};

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::error::{CliError, CliResult};

/// How a record is printed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    #[default]
    Table,
    /// For programs.
    Json,
    /// For programs and people.
    Yaml,
    /// Names only, one a line.
    Name,
}

/// `-o`.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct OutputArgs {
    /// How to print the result
    #[arg(
        short,
        long,
        value_enum,
        value_name = "FORMAT",
        default_value = "table"
    )]
    pub(crate) output: Format,
}

/// One line of a result. A reader that has gone away is not an error.
pub(crate) fn out(line: impl Display) {
    ignore_broken_pipe(writeln!(anstream::stdout().lock(), "{line}"));
}

/// Bytes of a result, as they are.
pub(crate) fn out_raw(bytes: &[u8]) {
    let mut stdout = io::stdout().lock();
    ignore_broken_pipe(stdout.write_all(bytes).and_then(|()| stdout.flush()));
}

/// One line of talk.
pub(crate) fn say(line: impl Display) {
    ignore_broken_pipe(writeln!(anstream::stderr().lock(), "{line}"));
}

/// There is nobody left to tell; the exit code still says how it went.
fn ignore_broken_pipe(_: io::Result<()>) {}

/// A record in a format for programs; `table` for people is the caller's.
pub(crate) fn encode<T: Serialize>(value: &T, format: Format) -> CliResult<String> {
    let failed =
        |e: &dyn Display| CliError::local("the result could not be written").why(e.to_string());
    match format {
        Format::Yaml => serde_saphyr::to_string(value)
            .map(|s| s.trim_end().to_owned())
            .map_err(|e| failed(&e)),
        _ => serde_json::to_string_pretty(value).map_err(|e| failed(&e)),
    }
}

/// Prints a record: `table` and `name` are made only when they are asked for.
pub(crate) fn print<T: Serialize>(
    value: &T,
    format: Format,
    name: impl FnOnce() -> String,
    table: impl FnOnce() -> String,
) -> CliResult<()> {
    let text = match format {
        Format::Table => table(),
        Format::Name => name(),
        Format::Json | Format::Yaml => encode(value, format)?,
    };
    if !text.is_empty() {
        out(text);
    }
    Ok(())
}

/// A table without lines: columns padded, two spaces between, nothing after the last.
#[derive(Debug, Default)]
pub(crate) struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// With these headings.
    pub(crate) fn new(headings: &[&str]) -> Self {
        Self {
            rows: vec![headings.iter().map(|h| (*h).to_owned()).collect()],
        }
    }

    /// One more row; an empty cell is shown as `-`. Control characters never reach a terminal.
    pub(crate) fn row<const N: usize>(&mut self, cells: [String; N]) {
        self.rows
            .push(cells.into_iter().map(|c| clean(&c)).collect());
    }

    /// As text, without a trailing newline.
    pub(crate) fn render(&self) -> String {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |i: usize| {
            self.rows
                .iter()
                .map(|r| r[i].chars().count())
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..columns).map(width).collect();
        let lines = self.rows.iter().map(|row| {
            let cells = row
                .iter()
                .zip(&widths)
                .map(|(cell, w)| format!("{cell:<w$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
        });
        lines.collect::<Vec<_>>().join("\n")
    }
}

fn clean(cell: &str) -> String {
    if cell.is_empty() {
        return "-".to_owned();
    }
    printable(cell)
}

/// Text that others wrote, safe for a terminal: a sandbox must not be able to send escape sequences
/// through a record or a log line.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() && c != '\t' {
                '\u{fffd}'
            } else {
                c
            }
        })
        .collect()
}

/// `Key:  value` lines for one record; empty values are left out.
pub(crate) fn fields(pairs: &[(&str, String)]) -> String {
    let shown: Vec<_> = pairs.iter().filter(|(_, v)| !v.is_empty()).collect();
    let width = shown.iter().map(|(k, _)| k.len() + 1).max().unwrap_or(0);
    let lines = shown.iter().map(|(k, v)| {
        let key = format!("{k}:");
        format!("{key:<width$}  {}", printable(v))
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests;
