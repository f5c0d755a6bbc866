//! A document before it means anything: a tree in which every node knows its place in the file.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_saphyr::{DuplicateKeyPolicy, MergeKeyPolicy, Spanned};

use crate::problem::{Place, Problem};

/// The largest file that is read.
pub const LARGEST: usize = 4 << 20;

/// Deeper than any policy is.
const DEEPEST: usize = 32;

/// A value and its place.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Node {
    pub(crate) at: Option<Place>,
    pub(crate) value: Value,
}

/// A key and its place.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Key {
    pub(crate) at: Option<Place>,
    pub(crate) text: String,
}

/// What a file can say.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Null,
    Bool(bool),
    Integer(i128),
    Fraction,
    Text(String),
    List(Vec<Node>),
    /// In the order of the file; a key may be there twice.
    Map(Vec<(Key, Node)>),
}

impl Value {
    /// For messages.
    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Null => "nothing",
            Self::Bool(_) => "a truth value",
            Self::Integer(_) => "a number",
            Self::Fraction => "a fraction",
            Self::Text(_) => "text",
            Self::List(_) => "a list",
            Self::Map(_) => "a mapping",
        }
    }
}

impl Node {
    /// The value under a key of a mapping.
    pub(crate) fn get(&self, key: &str) -> Option<&Self> {
        let found = self.entries().iter().find(|(name, _)| name.text == key);
        found.map(|(_, node)| node)
    }

    /// The entries of a mapping; of anything else, none.
    pub(crate) fn entries(&self) -> &[(Key, Self)] {
        match &self.value {
            Value::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; of anything else, none.
    pub(crate) fn items(&self) -> &[Self] {
        match &self.value {
            Value::List(items) => items,
            _ => &[],
        }
    }

    /// Text, if it is text.
    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number, if it is a number.
    pub(crate) fn integer(&self) -> Option<i128> {
        match self.value {
            Value::Integer(number) => Some(number),
            _ => None,
        }
    }

    /// A truth value, if it is one.
    pub(crate) fn truth(&self) -> Option<bool> {
        match self.value {
            Value::Bool(truth) => Some(truth),
            _ => None,
        }
    }
}

/// Reads YAML. Anchors may be used within reason; merge keys, several documents and tags of one's own are refused.
pub(crate) fn parse(text: &str) -> Result<Node, Problem> {
    if text.len() > LARGEST {
        return Err(whole(format!(
            "the file has {} bytes, at most {LARGEST} are read",
            text.len()
        )));
    }
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            max_anchors: 1_000,
            max_aliases: 1_000,
            max_nodes: 1_000_000,
            max_documents: 1,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
            max_replay_stack_depth: 8,
        },
        duplicate_keys: DuplicateKeyPolicy::PassThrough,
        merge_keys: MergeKeyPolicy::Error,
        strict_booleans: true,
        reject_unsupported_tags: true,
        with_snippet: false,
    };
    match serde_saphyr::from_str_with_options::<Spanned<Raw>>(text, options) {
        Ok(root) => Ok(node(root)),
        Err(error) => {
            let error = error.without_snippet();
            let at = error.location().and_then(place);
            let (message, hint) = explain(&error.to_string(), at, text);
            Err(Problem {
                at,
                path: String::new(),
                message,
                hint,
            })
        }
    }
}

/// A message of the parser in a sentence of ours.
fn explain(message: &str, at: Option<Place>, text: &str) -> (String, String) {
    // It names its place itself; ours stands before it.
    let message = message.lines().next().unwrap_or_default();
    let message = message.split(" at line ").next().unwrap_or_default();
    let line = at.and_then(|at| {
        text.lines()
            .nth(usize::try_from(at.line).ok()?.checked_sub(1)?)
    });
    let star = line.is_some_and(|line| {
        let value = line.split_once(": ").map_or(line, |(_, value)| value);
        value.trim_start_matches(['-', ' ', '[']).starts_with('*')
    });
    let hint = if star {
        "a value that begins with `*` needs quotes: \"*.example.com\""
    } else {
        ""
    };
    (
        format!("this is not YAML that can be read: {message}"),
        hint.to_owned(),
    )
}

fn whole(message: String) -> Problem {
    Problem {
        at: None,
        path: String::new(),
        message,
        hint: String::new(),
    }
}

fn place(location: serde_saphyr::Location) -> Option<Place> {
    let (line, column) = (location.line(), location.column());
    (line > 0).then_some(Place { line, column })
}

fn node(spanned: Spanned<Raw>) -> Node {
    Node {
        at: place(spanned.referenced),
        value: spanned.value.0,
    }
}

/// A value as the parser hands it over.
struct Raw(Value);

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor).map(Raw)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any value")
    }

    fn visit_bool<E>(self, truth: bool) -> Result<Value, E> {
        Ok(Value::Bool(truth))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Integer(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(Value::Integer(number.into()))
    }

    fn visit_f64<E>(self, _: f64) -> Result<Value, E> {
        Ok(Value::Fraction)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Value, E> {
        Ok(Value::Text(text))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = list.next_element::<Spanned<Raw>>()? {
            items.push(node(item));
        }
        Ok(Value::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut entries = Vec::new();
        while let Some(key) = map.next_key::<Spanned<String>>()? {
            let key = Key {
                at: place(key.referenced),
                text: key.value,
            };
            entries.push((key, node(map.next_value::<Spanned<Raw>>()?)));
        }
        Ok(Value::Map(entries))
    }
}

impl From<serde_json::Value> for Node {
    fn from(value: serde_json::Value) -> Self {
        use serde_json::Value as Json;
        let value = match value {
            Json::Null => Value::Null,
            Json::Bool(truth) => Value::Bool(truth),
            Json::Number(number) => number.as_i128().map_or(Value::Fraction, Value::Integer),
            Json::String(text) => Value::Text(text),
            Json::Array(items) => Value::List(items.into_iter().map(Self::from).collect()),
            Json::Object(entries) => Value::Map(
                entries
                    .into_iter()
                    .map(|(text, value)| (Key { at: None, text }, Self::from(value)))
                    .collect(),
            ),
        };
        Self { at: None, value }
    }
}
