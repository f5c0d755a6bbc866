//! `sandbox template create|get|list|delete`.

use std::collections::BTreeMap;

use clap::{Args, Subcommand};
use openshell_core::SandboxName;
use openshell_proto::{api, datamodel};
use serde::Serialize;

use crate::clock;
use crate::connect::{Gateway, request_id};
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{OutputArgs, Table, fields, print};

use super::super::each::delete_each;
use super::args::{Pair, map, parse_cpu, parse_memory, parse_pair};

/// `openshell sandbox template`
#[derive(Debug, Args)]
#[command(subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct TemplateArgs {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a template
    #[command(
        after_help = "Examples:\n  openshell sandbox template create small --image IMAGE --cpu 500m --memory 256Mi\n  openshell sandbox create --template small --detach"
    )]
    Create(CreateArgs),
    /// Show a template
    #[command(after_help = "Examples:\n  openshell sandbox template get small -o yaml")]
    Get(GetArgs),
    /// List the templates
    #[command(
        alias = "ls",
        after_help = "Examples:\n  openshell sandbox template list"
    )]
    List(ListArgs),
    /// Delete templates
    #[command(
        alias = "rm",
        after_help = "Examples:\n  openshell sandbox template delete small"
    )]
    Delete(DeleteArgs),
}

#[derive(Debug, Args)]
struct CreateArgs {
    /// Its name
    name: String,
    /// The image to run
    #[arg(long, default_value = "", hide_default_value = true)]
    image: String,
    /// CPU limit: 2, 1.5, 500m
    #[arg(long, value_name = "QUANTITY", value_parser = parse_cpu)]
    cpu: Option<String>,
    /// Memory limit: 512Mi, 2G
    #[arg(long, value_name = "QUANTITY", value_parser = parse_memory)]
    memory: Option<String>,
    /// A variable; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    env: Vec<Pair>,
    /// A label; may be given several times
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = parse_pair)]
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
        visible_alias = "label-selector",
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
struct TemplateView {
    name: String,
    id: String,
    workspace: String,
    image: String,
    cpu: String,
    memory: String,
    environment: BTreeMap<String, String>,
    labels: BTreeMap<String, String>,
    created: Option<String>,
}

#[derive(Serialize)]
struct TemplateList {
    templates: Vec<TemplateView>,
    next_page_token: &'static str,
}

impl TemplateArgs {
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
        let what = format!("template {:?} could not be created", self.name);
        SandboxName::new(self.name.as_str())
            .map_err(|e| CliError::usage(what.as_str()).why(e.to_string()))?;
        let gateway = Gateway::connect(global).await?;
        let resources = api::SandboxResources {
            cpu: self.cpu.unwrap_or_default(),
            memory: self.memory.unwrap_or_default(),
            gpu: None,
        };
        let template = api::SandboxWorkloadTemplate {
            metadata: Some(datamodel::ObjectMeta {
                name: self.name,
                labels: map(self.label),
                ..Default::default()
            }),
            spec: Some(api::SandboxWorkloadTemplateSpec {
                workload: Some(api::SandboxWorkloadConfig {
                    image: self.image,
                    environment: map(self.env),
                    resources: Some(resources),
                }),
                ..Default::default()
            }),
        };
        let request = api::CreateSandboxTemplateRequest {
            workspace_scope: gateway.scope(),
            template: Some(template),
            request_id: request_id(),
        };
        let answer = gateway.api().create_sandbox_template(request).await;
        let answer = answer.map_err(|s| gateway.failed(what, &s))?.into_inner();
        let view = TemplateView::new(answer.template.unwrap_or_default());
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
        let request = api::GetSandboxTemplateRequest {
            workspace_scope: gateway.scope(),
            name: self.name.clone(),
        };
        let answer = gateway.api().get_sandbox_template(request).await;
        let answer = answer
            .map_err(|s| gateway.failed(format!("template {:?} could not be read", self.name), &s))?
            .into_inner();
        let view = TemplateView::new(answer.template.unwrap_or_default());
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
        let mut list = TemplateList {
            templates: Vec::new(),
            next_page_token: "",
        };
        let mut page_token = String::new();
        loop {
            let request = api::ListSandboxTemplatesRequest {
                workspace_scope: gateway.scope(),
                page_size: 1000,
                page_token,
                label_selector: self.selector.clone(),
            };
            let answer = gateway.api().list_sandbox_templates(request).await;
            let answer = answer
                .map_err(|s| gateway.failed("the templates could not be listed", &s))?
                .into_inner();
            list.templates
                .extend(answer.templates.into_iter().map(TemplateView::new));
            page_token = answer.next_page_token;
            if page_token.is_empty() {
                break;
            }
        }
        let names = || {
            list.templates
                .iter()
                .map(|t| t.name.as_str())
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
            let request = api::DeleteSandboxTemplateRequest {
                workspace_scope: gateway.scope(),
                name,
                allow_missing: true,
                request_id: request_id(),
            };
            let answer = gateway.api().delete_sandbox_template(request).await?;
            Ok(answer.into_inner().outcome())
        };
        Ok(delete_each(&gateway, "template", self.names, delete).await)
    }
}

impl TemplateView {
    fn new(template: api::SandboxWorkloadTemplate) -> Self {
        let meta = template.metadata.unwrap_or_default();
        let workload = template
            .spec
            .unwrap_or_default()
            .workload
            .unwrap_or_default();
        let resources = workload.resources.unwrap_or_default();
        Self {
            created: clock::from_wire(meta.created_time.as_ref()).map(clock::rfc3339),
            name: meta.name,
            id: meta.id,
            workspace: meta.workspace,
            image: workload.image,
            cpu: resources.cpu,
            memory: resources.memory,
            environment: workload.environment,
            labels: meta.labels,
        }
    }

    fn details(&self) -> String {
        let pairs = |map: &BTreeMap<String, String>| {
            map.iter()
                .map(|(k, v)| format!("{k}={v}"))
                .collect::<Vec<_>>()
                .join(",")
        };
        fields(&[
            ("Name", self.name.clone()),
            ("Id", self.id.clone()),
            ("Workspace", self.workspace.clone()),
            ("Image", self.image.clone()),
            ("CPU", self.cpu.clone()),
            ("Memory", self.memory.clone()),
            ("Environment", pairs(&self.environment)),
            ("Labels", pairs(&self.labels)),
            ("Created", self.created.clone().unwrap_or_default()),
        ])
    }
}

impl TemplateList {
    fn table(&self) -> String {
        let mut table = Table::new(&["NAME", "IMAGE", "CPU", "MEMORY"]);
        for t in &self.templates {
            table.row([
                t.name.clone(),
                t.image.clone(),
                t.cpu.clone(),
                t.memory.clone(),
            ]);
        }
        table.render()
    }
}
