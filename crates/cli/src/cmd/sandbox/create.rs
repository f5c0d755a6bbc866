//! `sandbox create`: asks, tells the progress, attaches, and undoes what it made when it is interrupted.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum, ValueHint};
use openshell_core::SandboxName;
use openshell_proto::api;
use prost_types::{Struct, Value, value::Kind};

use crate::connect::{Gateway, request_id};
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{Format, say};
use crate::term;

use super::args::{Pair, map, parse_cpu, parse_memory, parse_pair};

mod run;

/// `openshell sandbox create`
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    openshell sandbox create --from IMAGE -- make test         # attached; answers with its status\n  \
    openshell sandbox create --name demo --from IMAGE --detach -- sleep infinity\n  \
    openshell sandbox create --name web --detach --restart-policy on-failure --cpu 500m --memory 512Mi -- ./serve\n  \
    openshell sandbox create --no-keep --env A=1 --label team=a -- sh -c 'echo $A'\n\n\
    Without a command it runs a login shell. Ctrl-C before it is ready deletes what was made.")]
pub(crate) struct CreateArgs {
    /// Its name [default: the gateway makes one]
    #[arg(long)]
    name: Option<String>,
    /// The image to run [default: the gateway's]
    #[arg(long, value_name = "IMAGE")]
    from: Option<String>,
    /// Take image, environment and limits from this template
    #[arg(long, value_name = "NAME", conflicts_with_all = ["from", "cpu", "memory"])]
    template: Option<String>,
    /// What happens when the main process ends
    #[arg(long, value_enum, value_name = "POLICY", default_value = "never")]
    restart_policy: Policy,
    /// A policy file
    #[arg(long, value_name = "FILE", env = "OPENSHELL_SANDBOX_POLICY", hide_env = true, value_hint = ValueHint::FilePath)]
    policy: Option<PathBuf>,
    /// A variable for everything that runs in it; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    env: Vec<Pair>,
    /// A label; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    label: Vec<Pair>,
    /// CPU limit: 2, 1.5, 500m
    #[arg(long, value_name = "QUANTITY", value_parser = parse_cpu, allow_hyphen_values = true)]
    cpu: Option<String>,
    /// Memory limit: 512Mi, 2G
    #[arg(long, value_name = "QUANTITY", value_parser = parse_memory, allow_hyphen_values = true)]
    memory: Option<String>,
    /// Return once it is ready, and print its name
    #[arg(short, long)]
    detach: bool,
    /// With --detach: return as soon as the gateway has accepted it
    #[arg(long, requires = "detach")]
    no_wait: bool,
    /// Delete it when the main process has ended
    #[arg(long, conflicts_with = "detach")]
    no_keep: bool,
    /// Give the main process a terminal [default: if it is a shell, or at a terminal]
    #[arg(short, long, conflicts_with = "no_tty")]
    tty: bool,
    /// Give the main process no terminal
    #[arg(short = 'T', long)]
    no_tty: bool,
    /// Accepted for compatibility; this version attaches no providers by itself
    #[arg(long, hide = true)]
    no_auto_providers: bool,
    /// How many seconds it may take until it is ready
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        env = "OPENSHELL_LIFECYCLE_TIMEOUT",
        hide_env = true
    )]
    timeout: u32,
    /// No progress
    #[arg(short, long)]
    quiet: bool,
    /// With --detach: how to print the record
    #[arg(short, long, value_enum, value_name = "FORMAT", requires = "detach")]
    output: Option<Format>,
    /// The main process and its arguments
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<String>,
}

/// `--restart-policy`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Policy {
    Never,
    OnFailure,
    Always,
}

impl CreateArgs {
    /// Creates and, unless detached, attaches.
    pub(crate) async fn run(mut self, global: &GlobalArgs) -> CliResult<Exit> {
        self.check()?;
        if self.command.is_empty() && !self.detach && !term::is_interactive() {
            say(
                "not at a terminal: not attached to the shell; `openshell sandbox connect NAME` attaches",
            );
            self.detach = true;
        }
        let gateway = Gateway::connect(global).await?;
        Box::pin(run::run(&gateway, &self)).await
    }

    /// What can be refused without asking the gateway.
    fn check(&self) -> CliResult<()> {
        let refuse = |why: String| CliError::usage("the sandbox could not be created").why(why);
        if let Some(name) = &self.name {
            SandboxName::new(name.as_str()).map_err(|e| refuse(format!("--name: {e}")))?;
        }
        if self.policy.is_some() {
            return Err(
                refuse("--policy: policies from a file are not supported yet".to_owned()).hint(
                    "leave it out: without a policy every connection to the outside is denied",
                ),
            );
        }
        let empty = |c: &String| c.is_empty();
        if self.command.first().is_some_and(empty) {
            return Err(refuse("the command is empty".to_owned()));
        }
        Ok(())
    }

    fn request(&self, gateway: &Gateway) -> api::CreateSandboxRequest {
        let policy = match self.restart_policy {
            Policy::Never => api::SandboxRestartPolicy::Never,
            Policy::OnFailure => api::SandboxRestartPolicy::OnFailure,
            Policy::Always => api::SandboxRestartPolicy::Always,
        };
        let resources = limits(self.cpu.as_deref(), self.memory.as_deref());
        let template = (self.from.is_some() || resources.is_some()).then(|| api::SandboxTemplate {
            image: self.from.clone().unwrap_or_default(),
            resources,
            ..Default::default()
        });
        api::CreateSandboxRequest {
            workspace_scope: gateway.scope(),
            name: self.name.clone().unwrap_or_default(),
            spec: Some(api::SandboxSpec {
                environment: map(self.env.clone()),
                template,
                command: self.command.clone(),
                tty: self.wants_tty(),
                restart_policy: policy as i32,
                ..Default::default()
            }),
            labels: map(self.label.clone()),
            await_main_process_attachment: !self.detach,
            workload_template: self.template.clone().unwrap_or_default(),
            request_id: request_id(),
            ..Default::default()
        }
    }

    /// As asked; else for a shell, and for whoever sits at a terminal.
    fn wants_tty(&self) -> bool {
        let by_itself = self.command.is_empty() || (!self.detach && term::is_interactive());
        self.tty || (by_itself && !self.no_tty)
    }

    fn bound(&self) -> Duration {
        Duration::from_secs(self.timeout.into())
    }
}

/// Limits in the form that templates carry them in.
fn limits(cpu: Option<&str>, memory: Option<&str>) -> Option<Struct> {
    let text = |s: &str| Value {
        kind: Some(Kind::StringValue(s.to_owned())),
    };
    let given = [("cpu", cpu), ("memory", memory)];
    let limits: BTreeMap<_, _> = given
        .into_iter()
        .filter_map(|(key, value)| Some((key.to_owned(), text(value?))))
        .collect();
    if limits.is_empty() {
        return None;
    }
    let limits = Value {
        kind: Some(Kind::StructValue(Struct { fields: limits })),
    };
    Some(Struct {
        fields: [("limits".to_owned(), limits)].into(),
    })
}

#[cfg(test)]
mod tests;
