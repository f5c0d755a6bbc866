//! What is wrong with a policy: where, why, and what to do about it; everything at once rather than the first thing.

use std::fmt;

/// A place in a file, counted from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, serde::Serialize)]
pub struct Place {
    /// The line.
    pub line: u64,
    /// The column, in characters.
    pub column: u64,
}

/// One thing that is wrong, or that is worth a remark.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Problem {
    /// Where in the file; nothing if the policy did not come from a file.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub at: Option<Place>,
    /// Where in the policy: `network_policies.github.endpoints[0].host`; empty for the whole.
    pub path: String,
    /// What is wrong.
    pub message: String,
    /// What to do; empty if there is nothing to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub hint: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(at) = self.at {
            write!(f, "line {}, column {}: ", at.line, at.column)?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)?;
        if !self.hint.is_empty() {
            write!(f, "; {}", self.hint)?;
        }
        Ok(())
    }
}

/// Everything that is wrong with a policy; never empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Problems(pub Vec<Problem>);

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.0.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Problems {}

impl From<Problem> for Problems {
    fn from(problem: Problem) -> Self {
        Self(vec![problem])
    }
}

/// More than this helps nobody, and a hostile file could ask for millions.
const MOST: usize = 100;

/// Collects what is found, in the order of the file.
#[derive(Default, Debug)]
pub(crate) struct Findings {
    problems: Vec<Problem>,
    remarks: Vec<Problem>,
}

impl Findings {
    /// Something that makes the policy invalid.
    pub(crate) fn wrong(&mut self, at: Option<Place>, path: &str, why: impl Into<Why>) {
        push(&mut self.problems, at, path, why.into());
    }

    /// Something that is valid, and perhaps not meant.
    pub(crate) fn remark(&mut self, at: Option<Place>, path: &str, why: impl Into<Why>) {
        push(&mut self.remarks, at, path, why.into());
    }

    /// Whether nothing is wrong so far.
    pub(crate) fn clean(&self) -> bool {
        self.problems.is_empty()
    }

    /// The remarks, unless something is wrong.
    pub(crate) fn end(mut self) -> Result<Vec<Problem>, Problems> {
        if self.problems.is_empty() {
            return Ok(self.remarks);
        }
        self.problems.sort_by_key(|problem| problem.at);
        Err(Problems(self.problems))
    }
}

fn push(list: &mut Vec<Problem>, at: Option<Place>, path: &str, why: Why) {
    if list.len() < MOST {
        list.push(Problem {
            at,
            path: path.to_owned(),
            message: why.message,
            hint: why.hint,
        });
    }
}

/// Why a value is refused, before it is known where it stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Why {
    message: String,
    hint: String,
}

impl Why {
    /// With what to do about it.
    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }
}

/// Why, in a sentence without a full stop.
pub(crate) fn why(message: impl Into<String>) -> Why {
    Why {
        message: message.into(),
        hint: String::new(),
    }
}

impl From<&str> for Why {
    fn from(message: &str) -> Self {
        why(message)
    }
}

impl From<String> for Why {
    fn from(message: String) -> Self {
        why(message)
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The known word that was perhaps meant: one that differs in a third of its letters at most.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // Longer than any key of ours: nothing is near, and nothing is computed.
    if word.len() > 64 {
        return None;
    }
    known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= candidate.len().div_ceil(3))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions and changes between two words.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let changed = diagonal + usize::from(x != *y);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}
