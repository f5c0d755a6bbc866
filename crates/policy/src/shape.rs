//! Whether a document has the shape of a policy: known keys, each once, values of the right kind.

use std::collections::HashSet;

use crate::fields::{Field, Kind, LATER_PROTOCOLS, Need, Object};
use crate::node::{Node, Value};
use crate::problem::{Findings, nearest, why};

const NOT_IGNORED: &str = "leave it away: what nothing enforces is refused rather than ignored";

/// Reports everything that does not fit.
pub(crate) fn check(node: &Node, kind: &Kind, path: &str, found: &mut Findings) {
    match (kind, &node.value) {
        (Kind::Any, _) | (Kind::Text, Value::Text(_)) | (Kind::Truth, Value::Bool(_)) => {}
        (Kind::Integer(least, most), Value::Integer(number)) => {
            if number < least || number > most {
                let bounds = if least == most {
                    format!("must be {least}")
                } else {
                    format!("must be from {least} to {most}")
                };
                found.wrong(node.at, path, format!("{number} {bounds}"));
            }
        }
        (Kind::Word(words), Value::Text(word)) => check_word(node, words, word, path, found),
        (Kind::List(kind), Value::List(items)) => {
            for (index, item) in items.iter().enumerate() {
                check(item, kind, &format!("{path}[{index}]"), found);
            }
        }
        (Kind::Map(kind), Value::Map(entries)) => {
            keys_once(node, path, found);
            for (key, value) in entries {
                check(value, kind, &join(path, &key.text), found);
            }
        }
        (Kind::Object(object), Value::Map(_)) => check_object(node, object, path, found),
        (Kind::Either(kinds), value) => match kinds.iter().find(|kind| fits(kind, value)) {
            Some(kind) => check(node, kind, path, found),
            None => misfit(node, kind, path, found),
        },
        _ => misfit(node, kind, path, found),
    }
}

fn misfit(node: &Node, kind: &Kind, path: &str, found: &mut Findings) {
    let message = format!("{} is expected, this is {}", name(kind), node.value.kind());
    let hint = match (&node.value, kind) {
        (Value::Text(_), Kind::Truth) => "write true or false, without quotes",
        (Value::Text(_), Kind::Integer(..)) => "write the number without quotes",
        (Value::Text(_) | Value::Map(_), Kind::List(_)) => {
            "write a list: `[...]`, or lines with `- `"
        }
        (Value::Integer(_) | Value::Bool(_) | Value::Fraction, Kind::Text | Kind::Word(_)) => {
            "put it in quotes"
        }
        (Value::Null, _) => "leave the key away, or give it a value",
        _ => "",
    };
    found.wrong(node.at, path, why(message).hint(hint));
}

/// Whether a kind is meant at all; bounds and words are checked afterwards.
fn fits(kind: &Kind, value: &Value) -> bool {
    match kind {
        Kind::Any => true,
        Kind::Text | Kind::Word(_) => matches!(value, Value::Text(_)),
        Kind::Integer(..) => matches!(value, Value::Integer(_)),
        Kind::Truth => matches!(value, Value::Bool(_)),
        Kind::List(_) => matches!(value, Value::List(_)),
        Kind::Map(_) | Kind::Object(_) => matches!(value, Value::Map(_)),
        Kind::Either(kinds) => kinds.iter().any(|kind| fits(kind, value)),
    }
}

fn name(kind: &Kind) -> String {
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Integer(..) => "a number".to_owned(),
        Kind::Truth => "true or false".to_owned(),
        Kind::Word(words) => format!("one of {}", words.join(", ")),
        Kind::List(_) => "a list".to_owned(),
        Kind::Map(_) | Kind::Object(_) => "a mapping".to_owned(),
        Kind::Either(kinds) => kinds.iter().map(name).collect::<Vec<_>>().join(" or "),
        Kind::Any => "a value".to_owned(),
    }
}

fn check_word(node: &Node, words: &[&str], word: &str, path: &str, found: &mut Findings) {
    if words.contains(&word) {
        return;
    }
    if LATER_PROTOCOLS.contains(&word) && words.contains(&"rest") {
        let message = format!("the protocol `{word}` is not supported yet");
        found.wrong(node.at, path, why(message).hint(NOT_IGNORED));
        return;
    }
    let message = format!("`{}` is not one of {}", short(word), words.join(", "));
    let meant = nearest(
        &word.to_lowercase().replace('_', "-"),
        words.iter().copied(),
    )
    .or_else(|| {
        nearest(
            &word.to_lowercase().replace('-', "_"),
            words.iter().copied(),
        )
    });
    found.wrong(node.at, path, why(message).hint(did_you_mean(meant)));
}

fn did_you_mean(word: Option<&str>) -> String {
    word.map_or_else(String::new, |word| format!("did you mean `{word}`?"))
}

/// Part of a text that others wrote: a message is a line, not a page.
pub(crate) fn short(text: &str) -> String {
    const MOST: usize = 80;
    let mut shown: String = text
        .chars()
        .take(MOST)
        .flat_map(char::escape_debug)
        .collect();
    if text.chars().nth(MOST).is_some() {
        shown.push('…');
    }
    shown.replace("\\'", "'").replace("\\\"", "\"")
}

pub(crate) fn join(path: &str, key: &str) -> String {
    let plain = !key.is_empty()
        && key
            .chars()
            .all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    match (path.is_empty(), plain) {
        (true, true) => key.to_owned(),
        (false, true) => format!("{path}.{key}"),
        (_, false) => format!("{path}[\"{}\"]", short(key)),
    }
}

fn check_object(node: &Node, object: &Object, path: &str, found: &mut Findings) {
    keys_once(node, path, found);
    for (key, value) in node.entries() {
        let here = join(path, &key.text);
        match object.fields.iter().find(|field| field.name == key.text) {
            Some(field) if field.need == Need::Later => later(key.at, field, &here, found),
            Some(field) => check(value, &field.kind, &here, found),
            None => {
                let known = object
                    .fields
                    .iter()
                    .filter(|field| field.need != Need::Later);
                let meant = nearest(&key.text, known.map(|field| field.name));
                let message = format!("`{}` is not a key that is known here", short(&key.text));
                found.wrong(key.at, path, why(message).hint(did_you_mean(meant)));
            }
        }
    }
    let required = object.fields.iter().filter(|f| f.need == Need::Required);
    for field in required.filter(|field| node.get(field.name).is_none()) {
        found.wrong(node.at, path, format!("`{}` is missing", field.name));
    }
}

fn later(at: Option<crate::Place>, field: &Field, path: &str, found: &mut Findings) {
    let message = format!("`{}` is not supported yet", field.name);
    found.wrong(at, path, why(message).hint(NOT_IGNORED));
}

fn keys_once(node: &Node, path: &str, found: &mut Findings) {
    let mut seen = HashSet::new();
    for (key, _) in node.entries() {
        if !seen.insert(key.text.as_str()) {
            let message = format!("`{}` is there twice", short(&key.text));
            found.wrong(key.at, path, message);
        }
    }
}
