//! Resources as users write them: limits and requests, or flat; numbers or quantities.

use openshell_core::Resources;
use openshell_core::quantity::{Bytes, MilliCpu};
use prost_types::value::Kind;
use prost_types::{Struct, Value};
use tonic::Status;

use crate::status::invalid;

const MAX_PIDS: u32 = 1 << 22;

/// From `template.resources`.
pub(crate) fn from_struct(field: &str, fields: &Struct) -> Result<Resources, Status> {
    let mut flat = Struct::default();
    let (mut limits, mut requests) = (Resources::default(), Resources::default());
    for (key, value) in &fields.fields {
        match (key.as_str(), &value.kind) {
            ("limits", Some(Kind::StructValue(s))) => {
                limits = leaves(&format!("{field}.limits"), s)?;
            }
            ("requests", Some(Kind::StructValue(s))) => {
                requests = leaves(&format!("{field}.requests"), s)?;
            }
            ("limits" | "requests", _) => {
                return Err(invalid(&format!("{field}.{key}"), "must be an object"));
            }
            _ => {
                flat.fields.insert(key.clone(), value.clone());
            }
        }
    }
    let flat = leaves(field, &flat)?;
    Ok(or(limits, or(flat, requests)))
}

/// From plain texts; empty means absent.
pub(crate) fn from_text(field: &str, cpu: &str, memory: &str) -> Result<Resources, Status> {
    Ok(Resources {
        cpu: given(cpu)
            .map(|t| parse(&format!("{field}.cpu"), t))
            .transpose()?,
        memory: given(memory)
            .map(|t| parse(&format!("{field}.memory"), t))
            .transpose()?,
        pids: None,
    })
}

/// The first where it says something, else the second.
pub(crate) fn or(first: Resources, second: Resources) -> Resources {
    Resources {
        cpu: first.cpu.or(second.cpu),
        memory: first.memory.or(second.memory),
        pids: first.pids.or(second.pids),
    }
}

fn given(text: &str) -> Option<&str> {
    (!text.is_empty()).then_some(text)
}

fn parse<T: std::str::FromStr>(field: &str, text: &str) -> Result<T, Status>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|e| invalid(field, e))
}

fn leaves(field: &str, fields: &Struct) -> Result<Resources, Status> {
    let mut out = Resources::default();
    for (key, value) in &fields.fields {
        let field = format!("{field}.{}", key.chars().take(64).collect::<String>());
        match key.as_str() {
            "cpu" => out.cpu = Some(parse::<MilliCpu>(&field, &text(&field, value)?)?),
            "memory" => out.memory = Some(parse::<Bytes>(&field, &text(&field, value)?)?),
            "pids" => {
                let pids: u32 = parse(&field, &text(&field, value)?)?;
                if !(1..=MAX_PIDS).contains(&pids) {
                    return Err(invalid(&field, format!("must be 1 to {MAX_PIDS}")));
                }
                out.pids = Some(pids);
            }
            _ => {
                return Err(invalid(
                    &field,
                    "is not supported yet; cpu, memory and pids are",
                ));
            }
        }
    }
    Ok(out)
}

fn text(field: &str, value: &Value) -> Result<String, Status> {
    match &value.kind {
        Some(Kind::StringValue(s)) => Ok(s.clone()),
        // Whole numbers print without a fraction, others as they are.
        Some(Kind::NumberValue(n)) if n.is_finite() => Ok(n.to_string()),
        _ => Err(invalid(
            field,
            "must be a number or a quantity such as 500m or 2Gi",
        )),
    }
}
