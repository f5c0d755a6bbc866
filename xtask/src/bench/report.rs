//! The figures as a table and as JSON, with the bounds that we have set ourselves.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::Serialize;

/// One figure.
#[derive(Serialize)]
pub(super) struct Line {
    name: String,
    unit: &'static str,
    value: f64,
    /// What the engine took for its part, where there is such a part.
    beside: Option<f64>,
    ratio: Option<f64>,
    /// Of the ratio if there is one, else of the value.
    bound: Option<f64>,
}

impl Line {
    /// Ours beside the engine's own.
    pub(super) fn ratio(name: &str, ours: f64, theirs: f64, bound: f64) -> Self {
        Self {
            name: name.to_owned(),
            unit: "ms",
            value: ours,
            beside: Some(theirs),
            ratio: Some(ours / theirs),
            bound: Some(bound),
        }
    }

    /// A figure that stands for itself.
    pub(super) fn absolute(name: &str, unit: &'static str, value: f64, bound: Option<f64>) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            value,
            beside: None,
            ratio: None,
            bound,
        }
    }

    fn holds(&self) -> Option<bool> {
        Some(self.ratio.unwrap_or(self.value) <= self.bound?)
    }
}

/// All of them.
#[derive(Default, Serialize)]
pub(super) struct Report {
    engine: String,
    lines: Vec<Line>,
}

impl Report {
    pub(super) fn engine(&mut self, version: &str) {
        version.clone_into(&mut self.engine);
    }

    pub(super) fn add(&mut self, line: Line) {
        self.lines.push(line);
    }

    pub(super) fn sizes(&mut self, sizes: &[(String, u64)]) {
        for (name, size) in sizes {
            let mib = *size as f64 / 1_048_576.0;
            self.add(Line::absolute(&format!("binary {name}"), "MiB", mib, None));
        }
    }

    /// For people, in Markdown so that it can be taken over into docs/performance.md.
    pub(super) fn table(&self) -> String {
        let engine = if self.engine.is_empty() {
            "No engine"
        } else {
            &self.engine
        };
        let mut text = format!("\n{engine}, medians of one run\n\n");
        text.push_str(
            "| what | ours | engine | ratio | bound | |\n|---|---:|---:|---:|---:|---|\n",
        );
        for line in &self.lines {
            let beside = line
                .beside
                .map_or_else(String::new, |ms| format!("{ms:.1} ms"));
            let ratio = line
                .ratio
                .map_or_else(String::new, |ratio| format!("{ratio:.2} \u{d7}"));
            let bound = match (line.bound, line.ratio) {
                (Some(bound), Some(_)) => format!("\u{2264} {bound:.2} \u{d7}"),
                (Some(bound), None) => format!("\u{2264} {bound} {}", line.unit),
                (None, _) => String::new(),
            };
            let verdict = match line.holds() {
                Some(true) => "holds",
                Some(false) => "**missed**",
                None => "",
            };
            // Writing to a string does not fail.
            let _ = writeln!(
                text,
                "| {} | {:.2} {} | {beside} | {ratio} | {bound} | {verdict} |",
                line.name, line.value, line.unit
            );
        }
        text
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        if let Some(directory) = path.parent() {
            std::fs::create_dir_all(directory)?;
        }
        std::fs::write(path, serde_json::to_vec_pretty(self)?)
            .with_context(|| format!("{} cannot be written", path.display()))
    }
}
