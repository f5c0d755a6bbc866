//! House rules that no compiler knows: every file says what it owns, none grows beyond what a head can hold, and
//! nothing points at the machine it was written on.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use openshell_e2e::command as run;

use crate::build;

/// Beyond this a file holds more than one idea.
const LINES: usize = 500;

pub(crate) fn check() -> Result<()> {
    let root = build::root();
    let mut wrong = Vec::new();
    for file in tracked(&root)? {
        let path = root.join(&file);
        if file.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("{} is unreadable", path.display()))?;
            wrong.extend(faults(&text).map(|fault| format!("{}: {fault}", file.display())));
        }
    }
    if !wrong.is_empty() {
        bail!("against the house rules:\n  {}", wrong.join("\n  "));
    }
    Ok(())
}

fn faults(text: &str) -> impl Iterator<Item = String> {
    let lines = text.lines().count();
    let long = (lines > LINES).then(|| format!("{lines} lines, at most {LINES}"));
    let silent = !text.trim_start().starts_with("//!");
    let silent =
        silent.then(|| "the first line must be `//!` and say what the file owns".to_owned());
    long.into_iter().chain(silent)
}

/// Files under version control, and new ones that are not ignored.
fn tracked(root: &Path) -> Result<Vec<PathBuf>> {
    let mut git = std::process::Command::new("git");
    git.current_dir(root);
    git.args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
        "-z",
    ]);
    let listed = match run::run(&mut git) {
        Ok(outcome) if outcome.code == 0 => outcome.stdout,
        // An unpacked archive has no history.
        _ => return walk(root),
    };
    let names = listed
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty());
    let names = names.map(|name| PathBuf::from(String::from_utf8_lossy(name).into_owned()));
    Ok(names.filter(|name| root.join(name).is_file()).collect())
}

fn walk(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        for entry in std::fs::read_dir(&directory)? {
            let path = entry?.path();
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            if path.is_dir() && name != "target" && !name.starts_with('.') {
                open.push(path);
            } else if path.is_file() {
                found.push(path.strip_prefix(root)?.to_owned());
            }
        }
    }
    Ok(found)
}
