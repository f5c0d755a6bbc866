//! `forward start|stop|list`: a port of a sandbox on this machine.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use clap::{Args, Subcommand};
use clap_complete::ArgValueCandidates;
use serde::Serialize;

use crate::complete;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{OutputArgs, Table, out, print, say};

mod background;
mod relay;
mod state;

use state::{Record, State};

/// `openshell forward`
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct ForwardArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Listen on this machine and pass each connection on to the sandbox
    #[command(
        after_help = "Examples:\n  openshell forward start 8080 demo               # until Ctrl-C\n  \
        openshell forward start 8080:80 demo -d         # in the background\n  openshell forward stop 8080"
    )]
    Start(StartArgs),
    /// End a forward
    #[command(
        after_help = "Examples:\n  openshell forward stop 8080\n  openshell forward stop 8080 demo"
    )]
    Stop(StopArgs),
    /// List the forwards of this user
    #[command(
        alias = "ls",
        after_help = "Examples:\n  openshell forward list\n  openshell forward list -o json"
    )]
    List(OutputArgs),
}

/// `PORT` or `PORT:REMOTE`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Ports {
    local: u16,
    remote: u16,
}

fn parse_ports(text: &str) -> Result<Ports, String> {
    let (local, remote) = text.split_once(':').unwrap_or((text, text));
    let port = |s: &str| {
        s.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| {
            format!("{s:?} is not a port; write PORT or PORT:REMOTE with numbers from 1 to 65535")
        })
    };
    Ok(Ports {
        local: port(local)?,
        remote: port(remote)?,
    })
}

#[derive(Debug, Args)]
struct StartArgs {
    /// The port here, and the port in the sandbox if it is another
    #[arg(value_name = "PORT[:REMOTE]", value_parser = parse_ports)]
    ports: Ports,
    /// The sandbox's name
    #[arg(add = ArgValueCandidates::new(complete::sandboxes))]
    name: String,
    /// The address to listen on
    #[arg(long, value_name = "ADDRESS", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    bind: IpAddr,
    /// In the background, until `forward stop`
    #[arg(short = 'd', long, visible_alias = "detach")]
    background: bool,
    /// This is the process in the background
    #[arg(long, hide = true, conflicts_with = "background")]
    child: bool,
}

#[derive(Debug, Args)]
struct StopArgs {
    /// The port here
    #[arg(value_parser = clap::value_parser!(u16).range(1..))]
    port: u16,
    /// Only if it leads to this sandbox
    name: Option<String>,
}

#[derive(Serialize)]
struct ForwardView {
    workspace: String,
    sandbox: String,
    bind_address: String,
    port: u16,
    remote_port: u16,
    pid: i32,
    alive: bool,
}

#[derive(Serialize)]
struct ForwardList {
    forwards: Vec<ForwardView>,
    next_page_token: &'static str,
}

impl ForwardArgs {
    /// Does what was asked.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        match self.verb {
            Verb::Start(args) => args.run(global).await,
            Verb::Stop(args) => args.run(global),
            Verb::List(output) => list(output),
        }
    }
}

impl StartArgs {
    async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let address = SocketAddr::new(self.bind, self.ports.local);
        if self.background {
            return background::start(global, &self, address).await;
        }
        let record = Record {
            workspace: global.workspace.clone(),
            sandbox: self.name.clone(),
            bind_address: self.bind.to_string(),
            port: self.ports.local,
            remote_port: self.ports.remote,
            pid: 0,
            started: 0,
        };
        let served = relay::serve(global, address, &self, record, self.child);
        served.await
    }
}

impl StopArgs {
    fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let state = State::of_user()?;
        let record = state.find(self.port).ok_or_else(|| {
            CliError::new(
                Exit::NotFound,
                format!("there is no forward of port {}", self.port),
            )
            .hint("`openshell forward list` shows those there are")
        })?;
        if self
            .name
            .as_ref()
            .is_some_and(|n| *n != record.sandbox || record.workspace != global.workspace)
        {
            return Err(CliError::new(
                Exit::NotFound,
                format!(
                    "port {} leads to sandbox {:?} of workspace {:?}",
                    self.port, record.sandbox, record.workspace
                ),
            ));
        }
        if record.end()? {
            say(format_args!("the forward of port {} is ended", self.port));
        } else {
            say(format_args!(
                "the forward of port {} had ended already",
                self.port
            ));
        }
        state.forget(self.port);
        out(self.port);
        Ok(Exit::Done)
    }
}

/// Those that have ended without a word are shown once, as not alive, and forgotten.
fn list(output: OutputArgs) -> CliResult<Exit> {
    let state = State::of_user()?;
    let list = ForwardList {
        forwards: state.all().into_iter().map(|r| view(&state, r)).collect(),
        next_page_token: "",
    };
    let names = || {
        list.forwards
            .iter()
            .map(|f| f.port.to_string())
            .collect::<Vec<_>>()
            .join("\n")
    };
    let table = || {
        let mut table = Table::new(&[
            "PORT",
            "SANDBOX",
            "REMOTE",
            "BIND",
            "WORKSPACE",
            "PID",
            "ALIVE",
        ]);
        for f in &list.forwards {
            table.row([
                f.port.to_string(),
                f.sandbox.clone(),
                f.remote_port.to_string(),
                f.bind_address.clone(),
                f.workspace.clone(),
                f.pid.to_string(),
                if f.alive { "yes" } else { "no" }.to_owned(),
            ]);
        }
        table.render()
    };
    print(&list, output.output, names, table)?;
    Ok(Exit::Done)
}

fn view(state: &State, record: Record) -> ForwardView {
    let alive = record.is_alive();
    if !alive {
        state.forget(record.port);
    }
    ForwardView {
        workspace: record.workspace,
        sandbox: record.sandbox,
        bind_address: record.bind_address,
        port: record.port,
        remote_port: record.remote_port,
        pid: record.pid,
        alive,
    }
}

#[cfg(test)]
mod tests;
