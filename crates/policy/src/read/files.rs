//! The filesystem policy: absolute paths, not too many, and none that would give everything away.

use std::collections::BTreeSet;

use super::Spot;
use crate::model::Filesystem;
use crate::node::Node;
use crate::problem::{Findings, Why, why};

/// Paths in both lists together.
const MOST: usize = 256;

/// Bytes of one path.
const LONGEST: usize = 4096;

/// The sandbox's own directory.
const OWN: &str = "/.openshell";

pub(super) fn read(spot: Spot<'_>, found: &mut Findings) -> Filesystem {
    let count = |key| spot.node.get(key).map_or(0, |list| list.items().len());
    let all = count("read_only") + count("read_write");
    if all > MOST {
        spot.wrong(
            found,
            format!("there are {all} paths, at most {MOST} are possible"),
        );
    }
    let mut read_only = BTreeSet::new();
    spot.each("read_only", |spot| {
        read_only.extend(spot.text(found, path));
    });
    let mut read_write = BTreeSet::new();
    spot.each("read_write", |spot| {
        let Some(path) = spot.text(found, path) else {
            return;
        };
        if path == "/" {
            spot.wrong(
                found,
                why("`/` cannot be writable").hint("name the directories that must be"),
            );
        }
        if read_only.contains(&path) {
            spot.remark(found, "the path is in `read_only` too; it can be written");
        }
        read_write.insert(path);
    });
    Filesystem {
        include_workdir: spot
            .node
            .get("include_workdir")
            .and_then(Node::truth)
            .unwrap_or(false),
        read_only,
        read_write,
    }
}

/// A path in one form: no empty segment, no `.`, no slash at its end.
fn path(text: &str) -> Result<String, Why> {
    if text.len() > LONGEST {
        return Err(why(format!("a path has at most {LONGEST} bytes")));
    }
    if !text.starts_with('/') {
        return Err(why("a path must be absolute").hint("begin with `/`"));
    }
    if text.chars().any(char::is_control) {
        return Err(why("the path contains a control character"));
    }
    let segments: Vec<&str> = text
        .split('/')
        .filter(|s| !matches!(*s, "" | "."))
        .collect();
    if segments.contains(&"..") {
        return Err(why("a path must not contain `..`"));
    }
    let path = format!("/{}", segments.join("/"));
    if path == OWN || path.starts_with(&format!("{OWN}/")) {
        return Err(why(format!(
            "`{OWN}` is the sandbox's own and is never granted"
        )));
    }
    Ok(path)
}
