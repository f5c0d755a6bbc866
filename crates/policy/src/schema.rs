//! The schema that editors read, made from the tables of keys.

use serde_json::{Map, Value, json};

use crate::fields::{Kind, Need, Object, POLICY};

/// The JSON schema of a policy file.
pub fn schema() -> Value {
    let mut root = object(&POLICY);
    root["$schema"] = json!("https://json-schema.org/draft/2020-12/schema");
    root["title"] = json!("OpenShell sandbox policy");
    root
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text => json!({ "type": "string" }),
        Kind::Integer(least, most) if least == most => json!({ "const": number(*least) }),
        Kind::Integer(least, most) => {
            json!({ "type": "integer", "minimum": number(*least), "maximum": number(*most) })
        }
        Kind::Truth => json!({ "type": "boolean" }),
        Kind::Word(words) => json!({ "enum": words }),
        Kind::List(items) => json!({ "type": "array", "items": self::kind(items) }),
        Kind::Map(values) => {
            json!({ "type": "object", "additionalProperties": self::kind(values) })
        }
        Kind::Object(fields) => object(fields),
        Kind::Either(kinds) => json!({ "anyOf": kinds.iter().map(self::kind).collect::<Vec<_>>() }),
        Kind::Any => json!({}),
    }
}

/// Bounds are small: a JSON number holds each.
fn number(bound: i128) -> i64 {
    i64::try_from(bound).unwrap_or(i64::MAX)
}

/// What is refused because it is not supported yet is unknown to the schema as well: an editor underlines it.
fn object(object: &Object) -> Value {
    let known = object
        .fields
        .iter()
        .filter(|field| field.need != Need::Later);
    let properties: Map<String, Value> = known
        .map(|field| {
            let mut value = kind(&field.kind);
            value["description"] = json!(field.doc);
            (field.name.to_owned(), value)
        })
        .collect();
    let required = object
        .fields
        .iter()
        .filter(|field| field.need == Need::Required);
    let required: Vec<_> = required.map(|field| field.name).collect();
    let mut schema = json!({
        "type": "object",
        "additionalProperties": false,
        "properties": properties,
    });
    if !required.is_empty() {
        schema["required"] = json!(required);
    }
    schema
}

#[cfg(test)]
mod tests;
