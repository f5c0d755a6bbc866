//! The effective configuration, as a file that could be used as it is, and as JSON.

use figment::value::Value;

use super::load::{Loaded, flatten};
use super::model::File;

/// TOML, with the origin of each value as a comment.
pub(crate) fn as_toml(loaded: &Loaded) -> String {
    let mut out = String::new();
    let mut table = String::new();
    for (key, value) in sorted(loaded) {
        let (this_table, name) = key.rsplit_once('.').unwrap_or(("", &key));
        if this_table != table {
            if !out.is_empty() {
                out.push('\n');
            }
            out.push_str(&format!("[{this_table}]\n"));
            table = this_table.to_owned();
        }
        let line = format!("{name} = {}", toml(&value));
        let source = origin(loaded, &key);
        out.push_str(&format!("{line:<48} # {source}\n"));
    }
    out
}

/// JSON: `{"openshell.gateway.name": {"value": …, "source": "default"}, …}`.
pub(crate) fn as_json(loaded: &Loaded) -> serde_json::Value {
    sorted(loaded)
        .into_iter()
        .map(|(key, value)| {
            let entry = serde_json::json!({
                "value": serde_json::to_value(&value).unwrap_or_default(),
                "source": origin(loaded, &key),
            });
            (key, entry)
        })
        .collect::<serde_json::Map<_, _>>()
        .into()
}

fn origin(loaded: &Loaded, key: &str) -> String {
    loaded
        .sources
        .get(key)
        .map_or_else(String::new, ToString::to_string)
}

/// A table's own values before its sub-tables, as TOML wants it.
fn sorted(loaded: &Loaded) -> Vec<(String, Value)> {
    let tree = Value::serialize(File {
        openshell: loaded.config.clone(),
    })
    .ok()
    .and_then(Value::into_dict)
    .unwrap_or_default();
    let mut leaves: Vec<_> = flatten(&tree).into_iter().collect();
    leaves.sort_by_cached_key(|(key, _)| {
        let (table, name) = key.rsplit_once('.').unwrap_or(("", key));
        (table.to_owned(), name.to_owned())
    });
    leaves
}

fn toml(value: &Value) -> String {
    match value {
        Value::String(_, text) => quote(text),
        Value::Char(_, c) => quote(&c.to_string()),
        Value::Bool(_, flag) => flag.to_string(),
        Value::Num(..) => value.deserialize::<i64>().unwrap_or_default().to_string(),
        Value::Array(_, items) => {
            let items: Vec<String> = items.iter().map(toml).collect();
            format!("[{}]", items.join(", "))
        }
        Value::Empty(..) | Value::Dict(..) => "\"\"".to_owned(),
    }
}

/// A TOML basic string; JSON's escapes are a subset of TOML's.
fn quote(text: &str) -> String {
    serde_json::to_string(text).unwrap_or_default()
}
