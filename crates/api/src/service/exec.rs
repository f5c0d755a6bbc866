//! Commands in a sandbox: `ExecSandbox`, `ExecSandboxInteractive`, and our own `Exec` and `AttachMain`.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::stream;
use openshell_core::SandboxRecord;
use openshell_lifecycle::LifecycleFence;
use openshell_lifecycle::fence::not_ready_message;
use openshell_proto::link::{self, process_input, process_output};
use openshell_proto::{api, plus};
use tonic::{Status, Streaming};

use super::Inner;
use super::process;
use crate::session::{Relay, RelayTarget};
use crate::status;
use crate::stream::{self as answers, Answer};
use crate::validate::{self, ONCE};

const COLS: u32 = 80;
const ROWS: u32 = 24;
const MAX_SIGNAL: i32 = 64;

impl<F: LifecycleFence> Inner<F> {
    pub(super) async fn exec_sandbox(
        &self,
        request: api::ExecSandboxRequest,
    ) -> Result<Answer<api::ExecSandboxEvent>, Status> {
        let given = Bytes::from(request.stdin.clone());
        let (relay, timeout) = self.open_exec(request).await?;
        let input = process::stdin(given)
            .chain([process::stdin_closed()])
            .map(Ok);
        Ok(answers::spawn(move |sink| {
            process::run(relay, stream::iter(input), timeout, sink, public_events)
        }))
    }

    pub(super) async fn exec_interactive(
        &self,
        mut messages: Streaming<api::ExecSandboxInput>,
    ) -> Result<Answer<api::ExecSandboxEvent>, Status> {
        use api::exec_sandbox_input::Payload;
        let first = messages.message().await?.and_then(|m| m.payload);
        let Some(Payload::Start(request)) = first else {
            return Err(first_message("start"));
        };
        let given = Bytes::from(request.stdin.clone());
        let (relay, timeout) = self.open_exec(request).await?;
        let read = |message: api::ExecSandboxInput| match message.payload {
            Some(Payload::Stdin(data)) => Ok(process_input::Input::Stdin(data)),
            Some(Payload::Resize(size)) => Ok(process_input::Input::Resize(link::WindowSize {
                cols: size.cols,
                rows: size.rows,
            })),
            Some(Payload::Start(_)) => Err(status::invalid("start", "comes once, and first")),
            None => Err(status::invalid("payload", "is missing")),
        };
        let input = futures_util::StreamExt::chain(
            stream::iter(process::stdin(given).map(Ok)),
            process::inputs(messages, read, true),
        );
        Ok(answers::spawn(move |sink| {
            process::run(relay, input, timeout, sink, public_events)
        }))
    }

    async fn open_exec(
        &self,
        request: api::ExecSandboxRequest,
    ) -> Result<(Relay, Option<Duration>), Status> {
        if request.command.is_empty() {
            return Err(status::invalid("command", "is empty; name a program"));
        }
        validate::request_id(request.request_id)?;
        let timeout = request
            .execution_timeout
            .map(|d| limit("execution_timeout", d))
            .transpose()?
            .flatten();
        let record = self.find(request.workspace_scope, "sandbox", &request.sandbox)?;
        let spec = link::ProcessSpec {
            argv: request.command,
            workdir: request.workdir,
            environment: request.environment,
            tty: request.tty,
            cols: request.cols,
            rows: request.rows,
            login_shell: !request.no_login_shell,
        };
        Ok((self.start(&record, "command", spec).await?, timeout))
    }

    /// Checks a process and has it started.
    async fn start(
        &self,
        record: &Arc<SandboxRecord>,
        field: &str,
        mut spec: link::ProcessSpec,
    ) -> Result<Relay, Status> {
        validate::command(field, &spec.argv, ONCE)?;
        validate::environment("environment", &spec.environment, ONCE)?;
        spec.workdir = validate::workdir("workdir", spec.workdir)?;
        let mut environment = record.spec.environment.clone();
        environment.append(&mut spec.environment);
        spec.environment = environment;
        if spec.tty && (spec.cols == 0 || spec.rows == 0) {
            (spec.cols, spec.rows) = (COLS, ROWS);
        }
        self.require_ready(record)?;
        self.open(record, RelayTarget::Exec(spec)).await
    }

    /// Opens a relay to the present run.
    pub(super) async fn open(
        &self,
        record: &SandboxRecord,
        target: RelayTarget,
    ) -> Result<Relay, Status> {
        self.hub
            .open(record.meta.id, record.life.generation, target)
            .await
            .map_err(|e| status::relay(&e))
    }

    pub(super) async fn plus_exec(
        &self,
        mut messages: Streaming<plus::ExecInput>,
    ) -> Result<Answer<link::ProcessOutput>, Status> {
        use plus::exec_input::Input;
        let first = messages.message().await?.and_then(|m| m.input);
        let Some(Input::Start(open)) = first else {
            return Err(first_message("start"));
        };
        let spec = open
            .process
            .ok_or_else(|| status::invalid("start.process", "is missing"))?;
        // Without arguments a login shell is an interactive one; anything else needs a program.
        if spec.argv.is_empty() && !spec.login_shell {
            return Err(status::invalid(
                "start.process.argv",
                "is empty; name a program",
            ));
        }
        let record = self.find(open.workspace_scope, "start.sandbox", &open.sandbox)?;
        let relay = self.start(&record, "start.process.argv", spec).await?;
        let timeout = (open.timeout_millis > 0).then(|| Duration::from_millis(open.timeout_millis));
        let input = process::inputs(
            messages,
            |message| match message.input {
                Some(Input::Process(input)) => process_input(input),
                Some(Input::Start(_)) => Err(status::invalid("start", "comes once, and first")),
                None => Err(status::invalid("input", "is missing")),
            },
            true,
        );
        Ok(answers::spawn(move |sink| {
            process::run(relay, input, timeout, sink, own_outputs)
        }))
    }

    pub(super) async fn attach_main(
        &self,
        mut messages: Streaming<plus::AttachMainInput>,
    ) -> Result<Answer<link::ProcessOutput>, Status> {
        use plus::attach_main_input::Input;
        let first = messages.message().await?.and_then(|m| m.input);
        let Some(Input::Start(open)) = first else {
            return Err(first_message("start"));
        };
        let record = self.find(open.workspace_scope, "start.sandbox", &open.sandbox)?;
        // A main process that has just ended still has its output and its exit to tell, whatever the phase.
        if !self.in_session(&record) {
            return Err(status::precondition(not_ready_message(&record)));
        }
        let target = RelayTarget::AttachMain(open.attach.unwrap_or_default());
        let relay = self.open(&record, target).await?;
        let input = process::inputs(
            messages,
            |message| match message.input {
                Some(Input::Process(input)) => process_input(input),
                Some(Input::Start(_)) => Err(status::invalid("start", "comes once, and first")),
                None => Err(status::invalid("input", "is missing")),
            },
            // Who leaves leaves main as it is.
            false,
        );
        Ok(answers::spawn(move |sink| {
            process::run(relay, input, None, sink, own_outputs)
        }))
    }
}

pub(super) fn first_message(what: &str) -> Status {
    status::invalid(what, "must be the first message")
}

/// What may follow the first message.
fn process_input(input: link::ProcessInput) -> Result<process_input::Input, Status> {
    use process_input::Input;
    match input.input {
        Some(Input::Signal(n)) if !(1..=MAX_SIGNAL).contains(&n) => Err(status::invalid(
            "process.signal",
            format!("{n} is not a signal"),
        )),
        Some(Input::Exec(_) | Input::AttachMain(_)) => Err(status::invalid(
            "process",
            "the process was named by the first message",
        )),
        Some(other) => Ok(other),
        None => Err(status::invalid("process", "is empty")),
    }
}

/// A time limit; zero means none.
fn limit(field: &str, d: prost_types::Duration) -> Result<Option<Duration>, Status> {
    if d.seconds == 0 && d.nanos == 0 {
        return Ok(None);
    }
    Duration::try_from(d)
        .map(Some)
        .map_err(|_| status::invalid(field, "must not be negative"))
}

/// Output in the public contract's words. Why a process could not start is told on stderr, as a shell would.
fn public_events(output: process_output::Output) -> Vec<api::ExecSandboxEvent> {
    use api::exec_sandbox_event::Payload;
    let stderr = |data| Payload::Stderr(api::ExecSandboxStderr { data });
    let payloads = match output {
        process_output::Output::Stdout(data) => {
            vec![Payload::Stdout(api::ExecSandboxStdout { data })]
        }
        process_output::Output::Stderr(data) => vec![stderr(data)],
        process_output::Output::Started(_) => Vec::new(),
        process_output::Output::Exit(exit) => {
            let mut all = Vec::new();
            if !exit.error.is_empty() {
                all.push(stderr(Bytes::from(format!("openshell: {}\n", exit.error))));
            }
            all.push(Payload::Exit(api::ExecSandboxExit {
                exit_code: exit.code,
            }));
            all
        }
    };
    payloads
        .into_iter()
        .map(|payload| api::ExecSandboxEvent {
            payload: Some(payload),
        })
        .collect()
}

fn own_outputs(output: process_output::Output) -> Vec<link::ProcessOutput> {
    vec![link::ProcessOutput {
        output: Some(output),
    }]
}
