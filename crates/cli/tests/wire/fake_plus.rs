//! The service beside the public one. A process is its first word: `exit N`, `cat`, `spec`, `hang`, `flood`.

use bytes::Bytes;
use openshell_proto::link::{
    Exit, ProcessOutput, ProcessSpec, ProcessStarted, process_input, process_output,
};
use openshell_proto::plus::open_shell_plus_server::OpenShellPlus;
use openshell_proto::plus::*;

use super::*;

type Output = mpsc::Sender<Result<ProcessOutput, Status>>;

async fn say(tx: &Output, output: process_output::Output) -> bool {
    tx.send(Ok(ProcessOutput {
        output: Some(output),
    }))
    .await
    .is_ok()
}

async fn exit(tx: &Output, code: i32) {
    let ended = Exit {
        code,
        ..Default::default()
    };
    say(tx, process_output::Output::Exit(ended)).await;
}

/// Runs a process of cardboard.
async fn process(world: World, spec: ProcessSpec, mut inputs: Streaming<ExecInput>, tx: Output) {
    use process_output::Output as O;
    let words: Vec<&str> = spec.argv.iter().map(String::as_str).collect();
    match words[..] {
        ["exit", code] => exit(&tx, code.parse().unwrap()).await,
        ["speak"] => {
            say(&tx, O::Stdout("to stdout".into())).await;
            say(&tx, O::Stderr("to stderr".into())).await;
            exit(&tx, 0).await;
        }
        ["spec"] => {
            let text = format!(
                "workdir={} env={:?} tty={} login={} size={}x{}",
                spec.workdir, spec.environment, spec.tty, spec.login_shell, spec.cols, spec.rows
            );
            say(&tx, O::Stdout(text.into())).await;
            exit(&tx, 0).await;
        }
        ["cat"] => loop {
            match next(&mut inputs).await {
                Some(process_input::Input::Stdin(bytes)) => {
                    if !say(&tx, O::Stdout(bytes)).await {
                        return;
                    }
                }
                Some(process_input::Input::StdinClosed(_)) => return exit(&tx, 0).await,
                Some(_) => {}
                None => return,
            }
        },
        ["hang"] => loop {
            match next(&mut inputs).await {
                Some(process_input::Input::Signal(n)) => {
                    world.change(|s| s.signals.push(n));
                    return exit(&tx, 128 + n).await;
                }
                Some(_) => {}
                None => return world.note("abandoned", "hang"),
            }
        },
        ["flood"] => {
            let block = Bytes::from(vec![b'x'; 64 << 10]);
            while say(&tx, O::Stdout(block.clone())).await {}
            world.note("abandoned", "flood");
        }
        _ => exit(&tx, 127).await,
    }
}

async fn next(inputs: &mut Streaming<ExecInput>) -> Option<process_input::Input> {
    match inputs.message().await.ok()??.input? {
        exec_input::Input::Process(input) => input.input,
        exec_input::Input::Start(_) => None,
    }
}

#[tonic::async_trait]
impl OpenShellPlus for World {
    type ListEventsStream = Out<JournalEntry>;
    type AttachMainStream = Out<ProcessOutput>;
    type ExecStream = Out<ProcessOutput>;
    type DownloadStream = Out<FileChunk>;

    async fn exec(&self, request: Request<Streaming<ExecInput>>) -> Answer<Self::ExecStream> {
        let mut inputs = request.into_inner();
        let Some(exec_input::Input::Start(open)) = inputs.message().await?.and_then(|m| m.input)
        else {
            return Err(Status::invalid_argument("the first input is not start"));
        };
        let sandbox = self.get(&open.sandbox)?;
        if sandbox.status.is_none_or(|s| s.phase() != P::Ready) {
            return Err(Status::failed_precondition(
                "the sandbox is not ready (phase Stopped); start it first",
            ));
        }
        if open.timeout_millis > 0 {
            return Err(Status::deadline_exceeded(
                "the command was ended after its time",
            ));
        }
        let (tx, rx) = mpsc::channel(4);
        let spec = open.process.unwrap_or_default();
        tokio::spawn(process(self.clone(), spec, inputs, tx));
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    async fn attach_main(
        &self,
        request: Request<Streaming<AttachMainInput>>,
    ) -> Answer<Self::AttachMainStream> {
        use process_output::Output as O;
        let mut inputs = request.into_inner();
        let Some(attach_main_input::Input::Start(open)) =
            inputs.message().await?.and_then(|m| m.input)
        else {
            return Err(Status::invalid_argument("the first input is not start"));
        };
        self.note("attach", &open.sandbox);
        let Some((output, code)) = self.state.lock().unwrap().main else {
            return Err(Status::failed_precondition("its main process has ended"));
        };
        let (tx, rx) = mpsc::channel(4);
        let stdin_owner = open.attach.unwrap_or_default().want_stdin;
        tokio::spawn(async move {
            say(
                &tx,
                O::Started(ProcessStarted {
                    pid: 2,
                    stdin_owner,
                }),
            )
            .await;
            say(&tx, O::Stdout(output.into())).await;
            exit(&tx, code).await;
        });
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    async fn list_events(
        &self,
        request: Request<ListEventsRequest>,
    ) -> Answer<Self::ListEventsStream> {
        let request = request.into_inner();
        self.get(&request.sandbox)?;
        let (tx, rx) = mpsc::channel(4);
        tokio::spawn(async move {
            for sequence in 1..=2 {
                let entry = JournalEntry {
                    sequence,
                    input: "command stop".into(),
                    verdict: "accepted".into(),
                    new_phase: "Stopping".into(),
                    ..Default::default()
                };
                let _ = tx.send(Ok(entry)).await;
            }
        });
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    async fn get_life(&self, request: Request<GetLifeRequest>) -> Answer<Life> {
        let name = request.into_inner().sandbox;
        let sandbox = self.get(&name)?;
        // The first answer is of a record that has changed since.
        let version = sandbox.metadata.map_or(0, |m| m.resource_version);
        let late = version > 0 && !self.called(&format!("life {name}"));
        self.note("life", &name);
        Ok(Response::new(Life {
            generation: if late { 2 } else { 3 },
            resource_version: version - u64::from(late),
            name,
            ..Default::default()
        }))
    }

    async fn batch_get_lives(
        &self,
        request: Request<BatchGetLivesRequest>,
    ) -> Answer<BatchGetLivesResponse> {
        let lives = request.into_inner().sandbox_ids.into_iter();
        let lives = lives.map(|sandbox_id| {
            let name = sandbox_id.trim_start_matches("id-").to_owned();
            let metadata = self.get(&name).ok().and_then(|s| s.metadata);
            let version = metadata.map_or(0, |m| m.resource_version);
            Life {
                sandbox_id,
                generation: 4,
                // Of a record that has changed since, where records have versions at all.
                resource_version: version.saturating_sub(1),
                ..Default::default()
            }
        });
        Ok(Response::new(BatchGetLivesResponse {
            lives: lives.collect(),
        }))
    }

    async fn restart_sandbox(&self, request: Request<RestartSandboxRequest>) -> Answer<Life> {
        let name = request.into_inner().name;
        self.go(&name, P::Stopping, P::Ready)?;
        Ok(Response::new(Life {
            sandbox_id: format!("id-{name}"),
            ..Default::default()
        }))
    }

    async fn hold_sandbox(&self, request: Request<HoldSandboxRequest>) -> Answer<Life> {
        let HoldSandboxRequest { name, reason, .. } = request.into_inner();
        self.note("hold", &format!("{name} {reason}"));
        self.go(&name, P::Stopping, P::Stopped)?;
        Ok(Response::new(Life {
            sandbox_id: format!("id-{name}"),
            ..Default::default()
        }))
    }

    async fn release_sandbox(&self, request: Request<ReleaseSandboxRequest>) -> Answer<Life> {
        let name = request.into_inner().name;
        self.get(&name)?;
        self.note("release", &name);
        Ok(Response::new(Life::default()))
    }

    async fn download(&self, request: Request<DownloadRequest>) -> Answer<Self::DownloadStream> {
        let request = request.into_inner();
        self.get(&request.sandbox)?;
        let Some((directory, bytes)) = self.state.lock().unwrap().uploaded.clone() else {
            return Err(Status::not_found(format!(
                "there is no {} in the sandbox",
                request.path
            )));
        };
        if !request.path.starts_with(&directory) {
            return Err(Status::not_found(format!(
                "there is no {} in the sandbox",
                request.path
            )));
        }
        let (tx, rx) = mpsc::channel(4);
        tokio::spawn(async move {
            for chunk in bytes.chunks(10_000) {
                let data = Bytes::copy_from_slice(chunk);
                if tx.send(Ok(FileChunk { data })).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(rx)))
    }

    async fn upload(&self, request: Request<Streaming<UploadChunk>>) -> Answer<UploadResponse> {
        let mut chunks = request.into_inner();
        let mut directory = String::new();
        let mut bytes = Vec::new();
        while let Some(chunk) = chunks.message().await? {
            match chunk.chunk {
                Some(upload_chunk::Chunk::Start(start)) => directory = start.directory,
                Some(upload_chunk::Chunk::Data(data)) => bytes.extend_from_slice(&data),
                None => {}
            }
        }
        let length = bytes.len() as u64;
        self.change(|s| s.uploaded = Some((directory, bytes)));
        Ok(Response::new(UploadResponse { bytes: length }))
    }

    async fn diagnose(&self, _: Request<DiagnoseRequest>) -> Answer<DiagnoseResponse> {
        let finding = |check: &str, status: &str, message: &str, fix: &str| Finding {
            check: check.into(),
            status: status.into(),
            message: message.into(),
            fix: fix.into(),
        };
        Ok(Response::new(DiagnoseResponse {
            findings: vec![
                finding("engine", "ok", "answers", ""),
                finding(
                    "leftovers",
                    "warning",
                    "1 container of no sandbox",
                    "docker rm -f abc",
                ),
            ],
        }))
    }
}
