//! Arguments that several verbs take.

use std::collections::BTreeMap;
use std::time::Duration;

use clap::Args;
use clap_complete::ArgValueCandidates;
use openshell_core::quantity::{Bytes, MilliCpu};

use crate::complete;

/// `KEY=VALUE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Pair(pub(crate) String, pub(crate) String);

impl From<Pair> for (String, String) {
    fn from(pair: Pair) -> Self {
        (pair.0, pair.1)
    }
}

/// Splits at the first `=`; both halves are checked by the gateway.
pub(crate) fn parse_pair(text: &str) -> Result<Pair, String> {
    match text.split_once('=') {
        Some(("", _)) | None => Err(format!("{text:?} is not KEY=VALUE")),
        Some((key, value)) => Ok(Pair(key.to_owned(), value.to_owned())),
    }
}

/// Pairs as a map; the last one of a key counts.
pub(crate) fn map(pairs: Vec<Pair>) -> BTreeMap<String, String> {
    pairs.into_iter().map(Into::into).collect()
}

/// Checks a CPU quantity and gives it back as written.
pub(crate) fn parse_cpu(text: &str) -> Result<String, String> {
    text.parse::<MilliCpu>()
        .map(|_| text.to_owned())
        .map_err(|e| e.to_string())
}

/// Checks a memory quantity and gives it back as written.
pub(crate) fn parse_memory(text: &str) -> Result<String, String> {
    text.parse::<Bytes>()
        .map(|_| text.to_owned())
        .map_err(|e| e.to_string())
}

/// Seconds, with a fraction if need be; more than none.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, String> {
    text.parse::<f64>()
        .ok()
        .filter(|s| *s > 0.0 && *s < 1e9)
        .and_then(|s| Duration::try_from_secs_f64(s).ok())
        .filter(|d| d.as_millis() > 0)
        .ok_or_else(|| format!("{text:?} is not a number of seconds greater than 0"))
}

/// One sandbox.
#[derive(Debug, Args)]
pub(crate) struct NameArg {
    /// The sandbox's name
    #[arg(add = ArgValueCandidates::new(complete::sandboxes))]
    pub(crate) name: String,
}

/// Several sandboxes.
#[derive(Debug, Args)]
pub(crate) struct NamesArg {
    /// The sandboxes' names
    #[arg(required = true, value_name = "NAME", add = ArgValueCandidates::new(complete::sandboxes))]
    pub(crate) names: Vec<String>,
}
