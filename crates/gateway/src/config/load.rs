//! Gathers the configuration in layers, and remembers where each value came from.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};

use figment::providers::{Format as _, Serialized, Toml};
use figment::value::{Dict, Map, Value};
use figment::{Figment, Metadata, Profile, Provider};

use super::ConfigError;
use super::model::{Config, File, VERSION};
use super::suggest::nearest;
use super::validate::validate;

/// Values from the command line: dotted key below `openshell`, text, and the flag as it was written.
pub(crate) type Flags = Vec<(&'static str, String, &'static str)>;

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// Nobody said otherwise.
    Default,
    /// A file.
    File(PathBuf),
    /// An environment variable.
    Environment(String),
    /// A flag.
    Flag(String),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::File(path) => write!(f, "file {}", path.display()),
            Self::Environment(name) => write!(f, "environment {name}"),
            Self::Flag(flag) => write!(f, "flag {flag}"),
        }
    }
}

/// A configuration that has been checked, with the origin of every value.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// The file that was read, if there was one.
    pub(crate) file: Option<PathBuf>,
    /// By dotted key, such as `openshell.gateway.name`.
    pub(crate) sources: BTreeMap<String, Source>,
}

/// Variables that users know under another name than the one derived from the key.
const OTHER_NAMES: &[(&str, &str)] = &[
    ("OPENSHELL_GATEWAY_NAME", "openshell.gateway.name"),
    ("OPENSHELL_SERVER_SAN", "openshell.gateway.server_sans"),
    ("OPENSHELL_TLS_CERT", "openshell.gateway.tls.cert_path"),
    ("OPENSHELL_TLS_KEY", "openshell.gateway.tls.key_path"),
    (
        "OPENSHELL_TLS_CLIENT_CA",
        "openshell.gateway.tls.client_ca_path",
    ),
];

/// `openshell.gateway.bind_address` → `OPENSHELL_BIND_ADDRESS`,
/// `openshell.lifecycle.restore` → `OPENSHELL_LIFECYCLE_RESTORE`.
pub(super) fn variable(key: &str) -> String {
    if let Some((name, _)) = OTHER_NAMES.iter().find(|(_, known)| *known == key) {
        return (*name).to_owned();
    }
    let short = key
        .strip_prefix("openshell.gateway.")
        .or_else(|| key.strip_prefix("openshell."))
        .unwrap_or(key);
    format!("OPENSHELL_{}", short.to_uppercase().replace('.', "_"))
}

/// One value from outside the file, as figment takes it.
struct Single {
    key: String,
    value: Value,
    source: Source,
}

impl Provider for Single {
    fn metadata(&self) -> Metadata {
        Metadata::named(self.source.to_string())
    }

    fn data(&self) -> Result<Map<Profile, Dict>, figment::Error> {
        let mut value = self.value.clone();
        for part in self.key.rsplit('.') {
            value = Value::from(Dict::from([(part.to_owned(), value)]));
        }
        Ok(value
            .into_dict()
            .map(|dict| Map::from([(Profile::Default, dict)]))
            .unwrap_or_default())
    }
}

/// Reads and checks everything; touches nothing. `file` is the one that was asked for, else the usual places are
/// looked at; `env` looks a variable up.
pub(crate) fn load(
    file: Option<&Path>,
    usual: &[PathBuf],
    env: impl Fn(&str) -> Option<OsString>,
    flags: &Flags,
) -> Result<Loaded, ConfigError> {
    let defaults = flatten(&default_tree());
    let file = match file {
        Some(path) => Some(path.to_owned()),
        None => usual.iter().find(|path| path.exists()).cloned(),
    };
    let mut figment = Figment::from(Serialized::defaults(File::default()));
    let mut sources: BTreeMap<String, Source> = defaults
        .keys()
        .map(|key| (key.clone(), Source::Default))
        .collect();

    if let Some(path) = &file {
        let tree = read_file(path)?;
        check_version(path, &tree)?;
        let found = flatten(&tree);
        check_keys(path, &found, &defaults)?;
        sources.extend(
            found
                .into_keys()
                .map(|key| (key, Source::File(path.clone()))),
        );
        figment = figment.merge(Serialized::defaults(tree));
    }
    for single in outside(&defaults, env, flags)? {
        sources.insert(single.key.clone(), single.source.clone());
        figment = figment.merge(single);
    }

    let File { openshell: config } = figment
        .extract()
        .map_err(|error| value_error(error, &sources))?;
    validate(&config)?;
    Ok(Loaded {
        config,
        file,
        sources,
    })
}

/// The values of variables, then of flags: later ones win.
fn outside(
    defaults: &BTreeMap<String, Value>,
    env: impl Fn(&str) -> Option<OsString>,
    flags: &Flags,
) -> Result<Vec<Single>, ConfigError> {
    let mut singles = Vec::new();
    for (key, default) in defaults {
        if key == "openshell.version" {
            continue;
        }
        let name = variable(key);
        let Some(text) = env(&name) else { continue };
        let source = Source::Environment(name);
        let text = text.into_string().map_err(|_| ConfigError::Value {
            key: key.clone(),
            source_name: source.to_string(),
            why: "is not valid UTF-8".to_owned(),
        })?;
        singles.push(single(key, default, &text, source)?);
    }
    for (short, text, flag) in flags {
        let key = format!("openshell.{short}");
        let Some(default) = defaults.get(&key) else {
            continue;
        };
        singles.push(single(
            &key,
            default,
            text,
            Source::Flag((*flag).to_owned()),
        )?);
    }
    Ok(singles)
}

/// Reads a text as the kind of value that the key has.
fn single(key: &str, default: &Value, text: &str, source: Source) -> Result<Single, ConfigError> {
    let value = match default {
        Value::Bool(..) => match text {
            "true" | "1" => Some(Value::from(true)),
            "false" | "0" => Some(Value::from(false)),
            _ => None,
        },
        Value::Num(..) => text.parse::<u64>().ok().map(Value::from),
        Value::Array(..) => Some(Value::from(
            text.split(',')
                .map(str::trim)
                .filter(|item| !item.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )),
        _ => Some(Value::from(text.to_owned())),
    };
    let expected = match default {
        Value::Bool(..) => "true or false",
        _ => "a whole number that is not negative",
    };
    Ok(Single {
        key: key.to_owned(),
        value: value.ok_or_else(|| ConfigError::Value {
            key: key.to_owned(),
            source_name: source.to_string(),
            why: format!("expected {expected}, found `{text}`"),
        })?,
        source,
    })
}

fn read_file(path: &Path) -> Result<Dict, ConfigError> {
    let shown = path.display().to_string();
    let text = std::fs::read_to_string(path).map_err(|error| ConfigError::Unreadable {
        path: shown.clone(),
        why: error.to_string(),
    })?;
    Toml::from_str::<Dict>(&text).map_err(|error| ConfigError::Syntax {
        path: shown,
        why: error.to_string(),
    })
}

fn check_version(path: &Path, tree: &Dict) -> Result<(), ConfigError> {
    let version = tree
        .get("openshell")
        .and_then(|table| table.find_ref("version"));
    let why = match version.map(|value| value.deserialize::<u64>().ok()) {
        Some(Some(found)) if found == u64::from(VERSION) => return Ok(()),
        Some(Some(found)) if found > u64::from(VERSION) => format!(
            "[openshell] version {found} is of a newer gateway; this one reads version {VERSION}"
        ),
        Some(Some(found)) => format!(
            "[openshell] version {found} is no longer read; compare the keys with the default \
             gateway.toml, then say `version = {VERSION}`"
        ),
        Some(None) => format!("[openshell] version must be the number {VERSION}"),
        None => {
            format!("it must begin with the table [openshell] and in it `version = {VERSION}`")
        }
    };
    Err(ConfigError::Version {
        path: path.display().to_string(),
        why,
    })
}

/// Every key must be known. The nearest one is looked for among whole keys, then among the last parts, so that a
/// key in the wrong table is recognised too.
fn check_keys(
    path: &Path,
    found: &BTreeMap<String, Value>,
    known: &BTreeMap<String, Value>,
) -> Result<(), ConfigError> {
    for (key, value) in found {
        let is_table = matches!(value, Value::Dict(_, table) if table.is_empty());
        let prefix = format!("{key}.");
        if known.contains_key(key)
            || (is_table && known.keys().any(|known| known.starts_with(&prefix)))
        {
            continue;
        }
        return Err(ConfigError::UnknownKey {
            path: path.display().to_string(),
            key: key.clone(),
            hint: hint(key, known),
        });
    }
    Ok(())
}

fn hint(key: &str, known: &BTreeMap<String, Value>) -> String {
    let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
    let table = |key: &str| {
        key.rsplit_once('.')
            .map(|(table, _)| table.to_owned())
            .unwrap_or_default()
    };
    let own = last(key);
    // First in the same table, then the same word in another table, then anything near.
    let here = nearest(
        &own,
        known
            .keys()
            .filter(|known| table(known) == table(key))
            .filter_map(|known| known.rsplit('.').next()),
    )
    .map(|word| format!("{}.{word}", table(key)));
    let elsewhere = || known.keys().find(|known| last(known) == own).cloned();
    let anywhere = || nearest(key, known.keys().map(String::as_str)).map(str::to_owned);
    here.or_else(elsewhere)
        .or_else(anywhere)
        .map(|word| format!("; did you mean `{word}`?"))
        .unwrap_or_default()
}

fn value_error(error: figment::Error, sources: &BTreeMap<String, Source>) -> ConfigError {
    let key = error.path.join(".");
    let source_name = sources
        .iter()
        .find(|(known, _)| key == **known || key.starts_with(&format!("{known}.")))
        .map_or_else(|| "the configuration".to_owned(), |(_, s)| s.to_string());
    ConfigError::Value {
        key,
        source_name,
        why: error.kind.to_string(),
    }
}

/// The defaults as a tree: this is the list of all keys.
pub(super) fn default_tree() -> Dict {
    Value::serialize(File::default())
        .ok()
        .and_then(Value::into_dict)
        .unwrap_or_default()
}

/// Leaves by dotted key. An empty table counts as a leaf, so that an unknown one is noticed.
pub(super) fn flatten(tree: &Dict) -> BTreeMap<String, Value> {
    fn walk(prefix: &str, dict: &Dict, into: &mut BTreeMap<String, Value>) {
        for (name, value) in dict {
            let key = if prefix.is_empty() {
                name.clone()
            } else {
                format!("{prefix}.{name}")
            };
            match value {
                Value::Dict(_, inner) if !inner.is_empty() => walk(&key, inner, into),
                _ => {
                    into.insert(key, value.clone());
                }
            }
        }
    }
    let mut leaves = BTreeMap::new();
    walk("", tree, &mut leaves);
    leaves
}
