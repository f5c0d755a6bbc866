//! Label selectors: `k=v,k2!=v2,k3,!k4`; all terms must hold.

use std::collections::BTreeMap;

use tonic::Status;

use crate::status::invalid;

const MAX_TERMS: usize = 64;

#[derive(Clone, PartialEq, Eq, Debug)]
enum Term {
    Is(String, String),
    IsNot(String, String),
    Has(String),
    HasNot(String),
}

/// What a list is narrowed to.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Selector(Vec<Term>);

impl Selector {
    /// Empty text selects everything.
    pub(crate) fn parse(text: &str) -> Result<Self, Status> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        let terms: Vec<&str> = text.split(',').collect();
        if terms.len() > MAX_TERMS {
            return Err(malformed(&format!("more than {MAX_TERMS} terms")));
        }
        terms
            .into_iter()
            .map(term)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Whether all terms hold.
    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|term| match term {
            Term::Is(k, v) => labels.get(k) == Some(v),
            Term::IsNot(k, v) => labels.get(k) != Some(v),
            Term::Has(k) => labels.contains_key(k),
            Term::HasNot(k) => !labels.contains_key(k),
        })
    }
}

fn malformed(what: &str) -> Status {
    invalid(
        "label_selector",
        format!("{what}; write terms such as app=web,tier!=test,owner,!old"),
    )
}

fn term(text: &str) -> Result<Term, Status> {
    let text = text.trim();
    let made = if let Some((k, v)) = text.split_once("!=") {
        Term::IsNot(key(k)?, value(v)?)
    } else if let Some((k, v)) = text.split_once("==").or_else(|| text.split_once('=')) {
        Term::Is(key(k)?, value(v)?)
    } else if let Some(k) = text.strip_prefix('!') {
        Term::HasNot(key(k)?)
    } else {
        Term::Has(key(text)?)
    };
    Ok(made)
}

fn key(text: &str) -> Result<String, Status> {
    let text = text.trim();
    crate::validate::label_key(text).map_err(|why| malformed(&format!("{text:?}: {why}")))?;
    Ok(text.to_owned())
}

fn value(text: &str) -> Result<String, Status> {
    let text = text.trim();
    crate::validate::label_value(text).map_err(|why| malformed(&format!("{text:?}: {why}")))?;
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests;
