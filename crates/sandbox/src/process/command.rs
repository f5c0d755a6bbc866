//! From what was asked for to what is executed: argv, environment, directory, login shell.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use openshell_core::bootstrap::WORKSPACE;
use openshell_proto::link::ProcessSpec;
use thiserror::Error;

/// Where commands are looked for if neither the image nor the request says.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// An image's settings for a proxy lead nowhere here: connections are intercepted, not redirected.
const DROPPED: &[&str] = &[
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
];
/// A login shell that runs a command runs exactly that: no second look at quotes, blanks or stars.
const EXACTLY: &str = "exec \"$@\"";

/// A request that could never be: the caller's mistake.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum Invalid {
    /// No argv, no shell.
    #[error("there is nothing to run: the command is empty")]
    Empty,
    /// NUL.
    #[error("{0} contains a NUL byte")]
    Nul(&'static str),
    /// Not a name.
    #[error("{0:?} cannot be the name of an environment variable")]
    Name(String),
    /// Relative.
    #[error("the working directory {0:?} is not an absolute path")]
    Directory(String),
}

/// A request that this image cannot satisfy: the process ends before it starts, as a shell would report it.
#[derive(Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub(crate) struct Refusal {
    /// 127 not found, 126 not executable.
    pub(crate) code: i32,
    /// Why.
    pub(crate) message: String,
}

impl Refusal {
    fn not_found(message: String) -> Self {
        Self { code: 127, message }
    }

    fn not_executable(message: String) -> Self {
        Self { code: 126, message }
    }
}

/// Ready to be executed.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// The file.
    pub(crate) program: PathBuf,
    /// What it is called.
    pub(crate) name: OsString,
    /// Its arguments.
    pub(crate) arguments: Vec<OsString>,
    /// All of its environment.
    pub(crate) environment: BTreeMap<String, OsString>,
    /// Where it starts.
    pub(crate) directory: PathBuf,
}

/// What every process starts from.
pub(crate) struct Base {
    environment: BTreeMap<String, OsString>,
}

impl Base {
    /// The image's environment, as the engine gave it to PID 1, with what must not be missing.
    pub(crate) fn from_image(uid: u32) -> Self {
        let image = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value)))
            .filter(|(name, _)| !DROPPED.contains(&name.as_str()));
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Self::new(image.collect(), user_in(&passwd, uid))
    }

    fn new(mut environment: BTreeMap<String, OsString>, user: Option<String>) -> Self {
        let user = user.unwrap_or_else(|| "sandbox".to_owned());
        environment.insert("HOME".to_owned(), WORKSPACE.into());
        environment.insert("LOGNAME".to_owned(), user.clone().into());
        environment.insert("USER".to_owned(), user.into());
        for (name, value) in [("PATH", DEFAULT_PATH), ("LANG", "C.UTF-8")] {
            environment
                .entry(name.to_owned())
                .or_insert_with(|| value.into());
        }
        Self { environment }
    }

    fn with(&self, spec: &ProcessSpec) -> BTreeMap<String, OsString> {
        let mut environment = self.environment.clone();
        if spec.tty {
            environment
                .entry("TERM".to_owned())
                .or_insert_with(|| "xterm-256color".into());
        }
        let asked = spec.environment.iter();
        environment.extend(asked.map(|(name, value)| (name.clone(), value.into())));
        environment
    }
}

/// The name of a user, read without the name service: a static binary has none.
fn user_in(passwd: &str, uid: u32) -> Option<String> {
    let uid = uid.to_string();
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)? == uid).then(|| name.to_owned())
    })
}

/// Whether it could be run anywhere at all.
pub(crate) fn check(spec: &ProcessSpec) -> Result<(), Invalid> {
    if spec.argv.is_empty() && !spec.login_shell {
        return Err(Invalid::Empty);
    }
    if spec.argv.first().is_some_and(String::is_empty) {
        return Err(Invalid::Empty);
    }
    if spec.argv.iter().any(|a| a.contains('\0')) {
        return Err(Invalid::Nul("an argument"));
    }
    if spec.workdir.contains('\0') {
        return Err(Invalid::Nul("the working directory"));
    }
    if !spec.workdir.is_empty() && !spec.workdir.starts_with('/') {
        return Err(Invalid::Directory(spec.workdir.clone()));
    }
    for (name, value) in &spec.environment {
        if name.is_empty() || name.contains(['=', '\0']) {
            return Err(Invalid::Name(name.clone()));
        }
        if value.contains('\0') {
            return Err(Invalid::Nul("an environment variable"));
        }
    }
    Ok(())
}

/// Finds what is to be executed.
pub(crate) fn plan(spec: &ProcessSpec, base: &Base) -> Result<Plan, Refusal> {
    let environment = base.with(spec);
    let directory = match spec.workdir.as_str() {
        "" => PathBuf::from(WORKSPACE),
        asked => PathBuf::from(asked),
    };
    if !directory.is_dir() {
        let message = format!(
            "the working directory {} does not exist in this sandbox",
            directory.display()
        );
        return Err(Refusal::not_executable(message));
    }
    let path = environment.get("PATH").cloned().unwrap_or_default();
    let argv = if spec.login_shell {
        login(&spec.argv, &path, &directory)?
    } else {
        spec.argv.clone()
    };
    let mut argv = argv.into_iter();
    let name = argv.next().unwrap_or_default();
    let program = find(&name, &path, &directory)?;
    Ok(Plan {
        program,
        name: name.into(),
        arguments: argv.map(OsString::from).collect(),
        environment,
        directory,
    })
}

fn login(argv: &[String], path: &OsString, directory: &Path) -> Result<Vec<String>, Refusal> {
    let shell = ["bash", "/bin/bash", "sh", "/bin/sh"]
        .into_iter()
        .find(|shell| find(shell, path, directory).is_ok());
    match (shell, argv) {
        (Some(shell), []) => Ok(vec![shell.to_owned(), "-l".to_owned()]),
        (Some(shell), argv) => {
            let mut all = [shell, "-lc", EXACTLY, shell].map(str::to_owned).to_vec();
            all.extend_from_slice(argv);
            Ok(all)
        }
        (None, []) => Err(Refusal::not_found(
            "this image has no shell (neither bash nor sh); name a command to run".to_owned(),
        )),
        // Without a shell there is no login, but the command can still be run.
        (None, argv) => Ok(argv.to_vec()),
    }
}

/// Looks a command up as a shell does.
fn find(name: &str, path: &OsString, directory: &Path) -> Result<PathBuf, Refusal> {
    if name.contains('/') {
        let file = directory.join(name);
        return match usable(&file) {
            Usable::Yes => Ok(file),
            Usable::No(why) => Err(Refusal::not_executable(format!("{name}: {why}"))),
            Usable::Missing => Err(Refusal::not_found(format!("{name}: no such file"))),
        };
    }
    let mut blocked = None;
    for entry in std::env::split_paths(path) {
        let file = directory.join(entry).join(name);
        match usable(&file) {
            Usable::Yes => return Ok(file),
            Usable::No(why) => {
                blocked.get_or_insert(format!("{}: {why}", file.display()));
            }
            Usable::Missing => {}
        }
    }
    Err(match blocked {
        Some(message) => Refusal::not_executable(message),
        None => Refusal::not_found(format!("{name}: command not found")),
    })
}

enum Usable {
    Yes,
    No(&'static str),
    Missing,
}

fn usable(file: &Path) -> Usable {
    let Ok(meta) = std::fs::metadata(file) else {
        return Usable::Missing;
    };
    if meta.is_dir() {
        return Usable::No("is a directory");
    }
    if meta.permissions().mode() & 0o111 == 0
        || rustix::fs::access(file, rustix::fs::Access::EXEC_OK).is_err()
    {
        return Usable::No("permission denied (not executable)");
    }
    let mut head = Vec::new();
    let read = std::fs::File::open(file).map(|f| f.take(20).read_to_end(&mut head));
    if read.is_ok() && foreign(&head) {
        return Usable::No("is built for another architecture");
    }
    Usable::Yes
}

/// Whether these first bytes are a program of another machine; the C library would take it for a script.
fn foreign(head: &[u8]) -> bool {
    let ours: u16 = if cfg!(target_arch = "x86_64") {
        62
    } else {
        183
    };
    match head {
        [0x7f, b'E', b'L', b'F', class, order, ..] if head.len() >= 20 => {
            let machine = match order {
                2 => u16::from_be_bytes([head[18], head[19]]),
                _ => u16::from_le_bytes([head[18], head[19]]),
            };
            *class != 2 || machine != ours
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests;
