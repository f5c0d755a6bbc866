//! `sandbox get|list`.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use clap::Args;
use openshell_proto::{api, plus};

use crate::clock;
use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::{Format, OutputArgs, encode, out, print, say};
use crate::view::{SandboxList, SandboxView, table};
use crate::wait::GATEWAY_AWAY;

use super::args::NameArg;
use super::{get, id_of, life, name_of};

/// The largest page that a gateway gives.
const PAGE: i32 = 1000;
/// How often `--watch` looks.
const WATCH_PACE: Duration = Duration::from_secs(1);

/// `openshell sandbox get`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox get demo\n  openshell sandbox get demo -o json | jq .phase"
)]
pub(crate) struct GetArgs {
    #[command(flatten)]
    name: NameArg,
    #[command(flatten)]
    output: OutputArgs,
}

impl GetArgs {
    /// Shows one.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let name = &self.name.name;
        let gateway = Gateway::connect(global).await?;
        let (sandbox, life) = both(&gateway, name).await?;
        let view = SandboxView::new(&sandbox, life.as_ref());
        print(
            &view,
            self.output.output,
            || view.name.clone(),
            || view.details(clock::now()),
        )?;
        Ok(Exit::Done)
    }
}

/// So often a record that changes is read again.
const READINGS: u32 = 8;

/// The public record and what it has no field for, of one version: read again while it changes in between.
async fn both(gateway: &Gateway, name: &str) -> CliResult<(api::Sandbox, Option<plus::Life>)> {
    let mut readings = 0;
    loop {
        let (sandbox, life) = tokio::join!(get(gateway, name), life(gateway, name));
        let sandbox = sandbox?;
        readings += 1;
        if life.as_ref().is_none_or(|l| of_one_version(&sandbox, l)) {
            return Ok((sandbox, life));
        }
        if readings == READINGS {
            return Ok((sandbox, None));
        }
    }
}

fn of_one_version(sandbox: &api::Sandbox, life: &plus::Life) -> bool {
    let version = sandbox.metadata.as_ref().map_or(0, |m| m.resource_version);
    // A gateway that tells no version of it cannot be asked for the same.
    [0, version].contains(&life.resource_version)
}

/// `openshell sandbox list`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox list\n  openshell sandbox list --selector team=a -o json\n  \
    openshell sandbox list -o name\n  openshell sandbox list --watch"
)]
pub(crate) struct ListArgs {
    /// Only those with these labels
    #[arg(
        short,
        long,
        value_name = "K=V,…",
        default_value = "",
        hide_default_value = true
    )]
    selector: String,
    /// Go on, and show what changes
    #[arg(short, long, conflicts_with_all = ["limit", "page_token"])]
    watch: bool,
    /// At most so many; the next page's token is in the JSON
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1000))]
    limit: Option<i32>,
    /// Begin at this page
    #[arg(
        long,
        value_name = "TOKEN",
        default_value = "",
        hide_default_value = true
    )]
    page_token: String,
    #[command(flatten)]
    output: OutputArgs,
}

impl ListArgs {
    /// Shows many.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let gateway = Gateway::connect(global).await?;
        if self.watch {
            return self.watch(&gateway).await;
        }
        let (sandboxes, next) = match self.limit {
            Some(limit) => page(&gateway, &self.selector, limit, self.page_token.clone()).await?,
            None => (
                rest(&gateway, &self.selector, self.page_token.clone()).await?,
                String::new(),
            ),
        };
        let list = SandboxList {
            sandboxes: self.views(&gateway, &sandboxes).await,
            next_page_token: next,
        };
        let names = || {
            list.sandboxes
                .iter()
                .map(|s| s.name.as_str())
                .collect::<Vec<_>>()
                .join("\n")
        };
        print(&list, self.output.output, names, || {
            table(&list.sandboxes, clock::now())
        })?;
        if !list.next_page_token.is_empty() && self.output.output == Format::Table {
            say(format_args!(
                "there are more: --page-token {}",
                list.next_page_token
            ));
        }
        Ok(Exit::Done)
    }

    /// With the lives where a format shows them.
    async fn views(&self, gateway: &Gateway, sandboxes: &[api::Sandbox]) -> Vec<SandboxView> {
        let wanted = matches!(self.output.output, Format::Json | Format::Yaml);
        let lives = if wanted {
            lives(gateway, sandboxes).await
        } else {
            BTreeMap::new()
        };
        let mut views = Vec::with_capacity(sandboxes.len());
        for sandbox in sandboxes {
            let life = lives.get(id_of(sandbox));
            views.push(match life {
                // It changed in between; one that is gone by now is shown as it was.
                Some(life) if !of_one_version(sandbox, life) => {
                    match both(gateway, name_of(sandbox)).await {
                        Ok((sandbox, life)) => SandboxView::new(&sandbox, life.as_ref()),
                        Err(_) => SandboxView::new(sandbox, None),
                    }
                }
                life => SandboxView::new(sandbox, life),
            });
        }
        views
    }

    /// Looks again and again; prints the whole table once, then each sandbox that changed or went.
    async fn watch(&self, gateway: &Gateway) -> CliResult<Exit> {
        let mut known: BTreeMap<String, SandboxView> = BTreeMap::new();
        let mut first = true;
        loop {
            let sandboxes = match first {
                true => rest(gateway, &self.selector, String::new()).await?,
                false => self.again(gateway).await?,
            };
            let views = self.views(gateway, &sandboxes).await;
            let now: BTreeSet<String> = views.iter().map(|v| v.id.clone()).collect();
            let changed: Vec<SandboxView> = views
                .into_iter()
                .filter(|v| known.get(&v.id) != Some(v))
                .collect();
            if !changed.is_empty() || first {
                self.print_changes(&changed, first)?;
            }
            first = false;
            known.retain(|id, view| {
                let stays = now.contains(id);
                if !stays {
                    say(format_args!("sandbox {:?} is gone", view.name));
                }
                stays
            });
            known.extend(changed.into_iter().map(|v| (v.id.clone(), v)));
            tokio::time::sleep(WATCH_PACE).await;
        }
    }

    /// What there is; a gateway that restarts is waited for.
    async fn again(&self, gateway: &Gateway) -> CliResult<Vec<api::Sandbox>> {
        let mut since: Option<Instant> = None;
        loop {
            let listed = rest(gateway, &self.selector, String::new()).await;
            match listed {
                Err(error)
                    if error.exit == Exit::Unreachable
                        && since.is_none_or(|since| since.elapsed() < GATEWAY_AWAY) =>
                {
                    if since.is_none() {
                        say("the gateway does not answer; it is waited for");
                    }
                    since.get_or_insert_with(Instant::now);
                    tokio::time::sleep(WATCH_PACE).await;
                }
                listed => {
                    if listed.is_ok() && since.is_some() {
                        say("the gateway is back");
                    }
                    return listed;
                }
            }
        }
    }

    fn print_changes(&self, changed: &[SandboxView], first: bool) -> CliResult<()> {
        match self.output.output {
            Format::Table => {
                let text = table(changed, clock::now());
                let text = if first {
                    text.as_str()
                } else {
                    text.split_once('\n').map_or("", |(_, rows)| rows)
                };
                out(text);
            }
            Format::Name => changed.iter().for_each(|v| out(&v.name)),
            Format::Json => {
                for view in changed {
                    let line = serde_json::to_string(view);
                    out(line.map_err(|e| {
                        CliError::local("the result could not be written").why(e.to_string())
                    })?);
                }
            }
            Format::Yaml => {
                for view in changed {
                    out(format_args!("---\n{}", encode(view, Format::Yaml)?));
                }
            }
        }
        Ok(())
    }
}

/// All that match, over all pages.
pub(super) async fn list_all(gateway: &Gateway, selector: &str) -> CliResult<Vec<api::Sandbox>> {
    rest(gateway, selector, String::new()).await
}

async fn rest(
    gateway: &Gateway,
    selector: &str,
    mut token: String,
) -> CliResult<Vec<api::Sandbox>> {
    let mut all = Vec::new();
    loop {
        let (mut sandboxes, next) = page(gateway, selector, PAGE, token).await?;
        all.append(&mut sandboxes);
        if next.is_empty() {
            return Ok(all);
        }
        token = next;
    }
}

async fn page(
    gateway: &Gateway,
    selector: &str,
    size: i32,
    token: String,
) -> CliResult<(Vec<api::Sandbox>, String)> {
    let request = api::ListSandboxesRequest {
        workspace_scope: gateway.scope(),
        page_size: size,
        page_token: token,
        label_selector: selector.to_owned(),
    };
    let answer = gateway.api().list_sandboxes(request).await;
    let answer = answer
        .map_err(|s| gateway.failed("the sandboxes could not be listed", &s))?
        .into_inner();
    Ok((answer.sandboxes, answer.next_page_token))
}

/// The lives of a list, in pages as large as the lists'.
async fn lives(gateway: &Gateway, sandboxes: &[api::Sandbox]) -> BTreeMap<String, plus::Life> {
    let mut found = BTreeMap::new();
    for chunk in sandboxes.chunks(PAGE.unsigned_abs() as usize) {
        let request = plus::BatchGetLivesRequest {
            sandbox_ids: chunk.iter().map(|s| id_of(s).to_owned()).collect(),
        };
        // A gateway without this call still lists; the fields are null then.
        if let Ok(answer) = gateway.plus().batch_get_lives(request).await {
            let lives = answer.into_inner().lives;
            found.extend(lives.into_iter().map(|l| (l.sandbox_id.clone(), l)));
        }
    }
    found
}
