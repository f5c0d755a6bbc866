//! `workspace create|get|list|delete`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use openshell_core::name::WorkspaceName;
use openshell_proto::{api, datamodel};
use serde::Serialize;

use crate::clock;
use crate::connect::{Gateway, request_id};
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{OutputArgs, Table, fields, print};

use super::each::delete_each;
use super::sandbox::args::{Pair, parse_pair};

/// `openshell workspace`
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct WorkspaceArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a workspace
    #[command(
        after_help = "Examples:\n  openshell workspace create team-a\n  openshell workspace create team-a --label owner=me -o json"
    )]
    Create(CreateArgs),
    /// Show a workspace
    #[command(after_help = "Examples:\n  openshell workspace get team-a")]
    Get(GetArgs),
    /// List the workspaces
    #[command(
        alias = "ls",
        after_help = "Examples:\n  openshell workspace list\n  openshell workspace list --selector owner=me -o name"
    )]
    List(ListArgs),
    /// Delete empty workspaces
    #[command(
        alias = "rm",
        after_help = "Examples:\n  openshell workspace delete team-a"
    )]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Its name
    #[arg(required_unless_present = "name_flag")]
    name: Option<String>,
    /// Its name
    #[arg(
        long = "name",
        id = "name_flag",
        value_name = "NAME",
        conflicts_with = "name"
    )]
    name_flag: Option<String>,
    /// A label; may be given several times
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    label: Vec<Pair>,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct GetArgs {
    /// Which
    name: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct ListArgs {
    /// Only those with these labels
    #[arg(
        long,
        value_name = "K=V,…",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Args)]
struct DeleteArgs {
    /// Which
    #[arg(required = true)]
    names: Vec<String>,
}

#[derive(Serialize)]
struct WorkspaceView {
    name: String,
    id: String,
    phase: &'static str,
    labels: BTreeMap<String, String>,
    created: Option<String>,
}

#[derive(Serialize)]
struct WorkspaceList {
    workspaces: Vec<WorkspaceView>,
    next_page_token: String,
}

impl WorkspaceArgs {
    /// Does what was asked.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        match self.verb {
            Verb::Create(args) => args.run(global).await,
            Verb::Get(args) => args.run(global).await,
            Verb::List(args) => args.run(global).await,
            Verb::Delete(args) => args.run(global).await,
        }
    }
}

impl CreateArgs {
    async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let name = self.name.or(self.name_flag).unwrap_or_default();
        let what = format!("workspace {name:?} could not be created");
        WorkspaceName::new(name.as_str())
            .map_err(|e| CliError::usage(what.as_str()).why(e.to_string()))?;
        let gateway = Gateway::connect(global).await?;
        let request = api::CreateWorkspaceRequest {
            name,
            labels: self.label.into_iter().map(Into::into).collect(),
            request_id: request_id(),
        };
        let answer = gateway.api().create_workspace(request).await;
        let answer = answer.map_err(|s| gateway.failed(what, &s))?.into_inner();
        let view = WorkspaceView::new(answer.workspace.unwrap_or_default());
        print(
            &view,
            self.output.output,
            || view.name.clone(),
            || view.name.clone(),
        )?;
        Ok(Exit::Done)
    }
}

impl GetArgs {
    async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let request = api::GetWorkspaceRequest {
            name: self.name.clone(),
        };
        let answer = gateway.api().get_workspace(request).await;
        let answer = answer
            .map_err(|s| {
                gateway.failed(format!("workspace {:?} could not be read", self.name), &s)
            })?
            .into_inner();
        let view = WorkspaceView::new(answer.workspace.unwrap_or_default());
        print(
            &view,
            self.output.output,
            || view.name.clone(),
            || view.details(),
        )?;
        Ok(Exit::Done)
    }
}

impl ListArgs {
    async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let mut workspaces = Vec::new();
        let mut page_token = String::new();
        loop {
            let request = api::ListWorkspacesRequest {
                page_size: 1000,
                page_token,
                label_selector: self.selector.clone(),
            };
            let answer = gateway.api().list_workspaces(request).await;
            let answer = answer
                .map_err(|s| gateway.failed("the workspaces could not be listed", &s))?
                .into_inner();
            workspaces.extend(answer.workspaces.into_iter().map(WorkspaceView::new));
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let list = WorkspaceList {
            workspaces,
            next_page_token: String::new(),
        };
        let names = || {
            list.workspaces
                .iter()
                .map(|w| w.name.as_str())
                .collect::<Vec<_>>()
                .join("\n")
        };
        print(&list, self.output.output, names, || list.table())?;
        Ok(Exit::Done)
    }
}

impl DeleteArgs {
    async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        let delete = async |name| {
            let request = api::DeleteWorkspaceRequest {
                name,
                allow_missing: true,
                request_id: request_id(),
            };
            let answer = gateway.api().delete_workspace(request).await?;
            Ok(answer.into_inner().outcome())
        };
        Ok(delete_each(&gateway, "workspace", self.names, delete).await)
    }
}

impl WorkspaceView {
    fn new(workspace: datamodel::Workspace) -> Self {
        let phase = workspace.status.map(|s| s.phase()).unwrap_or_default();
        let meta = workspace.metadata.unwrap_or_default();
        Self {
            created: clock::from_wire(meta.created_time.as_ref()).map(clock::rfc3339),
            name: meta.name,
            id: meta.id,
            phase: match phase {
                datamodel::WorkspacePhase::Terminating => "Terminating",
                _ => "Active",
            },
            labels: meta.labels,
        }
    }

    fn labels(&self) -> String {
        let labels = self.labels.iter().map(|(k, v)| format!("{k}={v}"));
        labels.collect::<Vec<_>>().join(",")
    }

    fn details(&self) -> String {
        fields(&[
            ("Name", self.name.clone()),
            ("Id", self.id.clone()),
            ("Phase", self.phase.to_owned()),
            ("Labels", self.labels()),
            ("Created", self.created.clone().unwrap_or_default()),
        ])
    }
}

impl WorkspaceList {
    fn table(&self) -> String {
        let mut table = Table::new(&["NAME", "PHASE", "LABELS"]);
        for w in &self.workspaces {
            table.row([w.name.clone(), w.phase.to_owned(), w.labels()]);
        }
        table.render()
    }
}
