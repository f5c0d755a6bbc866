//! A sandbox container and its supervisor, as tests need them.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper_util::rt::TokioIo;
use openshell_core::bootstrap::SandboxBootstrap;
use openshell_core::token::{self, Audience, Claims, Signer};
use openshell_core::{Generation, SandboxId};
use openshell_proto::link::control_from_sandbox::Message as FromSandbox;
use openshell_proto::link::control_from_supervisor::Message as ToSandbox;
use openshell_proto::link::process_input::Input;
use openshell_proto::link::process_output::Output;
use openshell_proto::link::sandbox_client::SandboxClient;
use openshell_proto::link::{
    AttachMainStart, AttachRequest, AttachResponse, ControlFromSandbox, ControlFromSupervisor,
    EgressDecision, EgressRequest, Exit, ExitAck, LogLine, NameAnswer, Policy, ProcessInput,
    ProcessOutput, ProcessSpec, StartMainRequest,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::mpsc;
use tokio::time::timeout;
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::{Channel, Endpoint};
use tonic::{Status, Streaming};

pub(crate) const GENERATION: Generation = Generation(3);
const SECRET: [u8; 32] = [7; 32];
const NONCE: [u8; 32] = [9; 32];
/// Nothing that a test waits for takes longer.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn docker(args: &[&str]) -> String {
    let client = std::env::var("OPENSHELL_TEST_DOCKER").unwrap_or_else(|_| "docker".to_owned());
    let out = Command::new(client)
        .args(args)
        .output()
        .expect("these tests need the client of a container engine");
    assert!(
        out.status.success(),
        "docker {args:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8_lossy(&out.stdout).trim().to_owned()
}

fn image() -> String {
    std::env::var("OPENSHELL_TEST_IMAGE").unwrap_or_else(|_| "openshell-dev/busybox:1".to_owned())
}

/// The binary under test, static: it must run in an image that has nothing.
fn binary() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        if let Ok(given) = std::env::var("OPENSHELL_TEST_SANDBOX") {
            return given.into();
        }
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().unwrap();
        let done = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "-p",
                "openshell-sandbox",
                "--target",
                &target,
            ])
            .env("RUSTFLAGS", "-C target-feature=+crt-static")
            .env("CARGO_TARGET_DIR", root)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status()
            .expect("cargo runs");
        assert!(done.success(), "the static build failed");
        root.join(target).join("debug/openshell-sandbox")
    })
}

/// What is done differently from the ordinary.
#[derive(Default)]
pub(crate) struct Setup {
    pub(crate) grace: Option<Duration>,
    pub(crate) engine: Vec<&'static str>,
    pub(crate) drop_defaults: bool,
}

/// A container with the runtime as PID 1.
pub(crate) struct Sandbox {
    pub(crate) id: String,
    pub(crate) sandbox: SandboxId,
    pub(crate) dir: tempfile::TempDir,
    listener: UnixListener,
    signer: Signer,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _gone = std::panic::catch_unwind(|| docker(&["rm", "-f", "-v", &self.id]));
    }
}

fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}

impl Sandbox {
    pub(crate) fn start() -> Self {
        Self::start_with(Setup::default())
    }

    pub(crate) fn start_with(setup: Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        open_to_all(dir.path());
        for name in ["l", "l/bin", "l/boot", "l/link", "w"] {
            let path = dir.path().join(name);
            std::fs::create_dir(&path).unwrap();
            open_to_all(&path);
        }
        std::fs::copy(binary(), dir.path().join("l/bin/openshell-sandbox")).unwrap();
        let der = Signer::generate_pkcs8().unwrap();
        let signer = Signer::from_pkcs8(&der).unwrap();
        let sandbox = SandboxId::random();
        let grace = setup.grace.unwrap_or(Duration::from_secs(2));
        let bootstrap = SandboxBootstrap {
            sandbox_id: sandbox,
            generation: GENERATION,
            gateway_public_key: STANDARD.encode(signer.public_key()),
            link_secret: STANDARD.encode(SECRET),
            supervisor_uid: rustix::process::getuid().as_raw(),
            stop_grace_millis: u64::try_from(grace.as_millis()).unwrap(),
        };
        let boot = dir.path().join("l/boot/sandbox.json");
        std::fs::write(&boot, serde_json::to_vec(&bootstrap).unwrap()).unwrap();
        let socket = dir.path().join(format!("l/link/{GENERATION}.sock"));
        let listener = UnixListener::bind(&socket).unwrap();
        open_to_all(&socket);
        let mounts = [
            format!("{}:/.openshell", dir.path().join("l").display()),
            format!("{}:/sandbox", dir.path().join("w").display()),
        ];
        let image = image();
        let mut args = vec!["run", "-d", "--label", "openshell.ai/made-by=sandbox-tests"];
        if !setup.drop_defaults {
            args.extend(["--network", "none", "--cap-drop", "ALL"]);
            args.extend(["--security-opt", "no-new-privileges", "-u", "1000:1000"]);
            args.extend(["--sysctl", "net.ipv4.ip_unprivileged_port_start=0"]);
        }
        args.extend(["--pids-limit", "256", "-v", &mounts[0], "-v", &mounts[1]]);
        args.extend(setup.engine);
        args.extend(["--entrypoint", "/.openshell/bin/openshell-sandbox", &image]);
        let id = docker(&args);
        Self {
            id,
            sandbox,
            dir,
            listener,
            signer,
        }
    }

    pub(crate) fn token(&self, change: impl FnOnce(&mut Claims)) -> String {
        #[expect(
            clippy::disallowed_methods,
            reason = "the container's clock is this machine's"
        )]
        let now = jiff::Timestamp::now().as_second();
        let mut claims = Claims {
            iss: "openshell-gateway:test".to_owned(),
            aud: Audience::Sandbox,
            sandbox_id: self.sandbox,
            generation: GENERATION,
            iat: now,
            exp: 0,
            jti: "1".to_owned(),
        };
        change(&mut claims);
        self.signer.sign(&claims).unwrap()
    }

    /// The next connection of the runtime, not attached.
    pub(crate) async fn accept(&self) -> Link {
        let accepted = timeout(PATIENCE, self.listener.accept()).await;
        let (stream, _) = accepted.expect("the runtime dials").unwrap();
        Link::over(stream).await
    }

    /// A connection that has been attached and controlled.
    pub(crate) async fn attach(&self, instance: &str) -> Link {
        self.attach_with(instance, None).await
    }

    pub(crate) async fn attach_with(&self, instance: &str, policy: Option<Policy>) -> Link {
        let mut link = self.accept().await;
        let request = self.request(instance, policy);
        link.attach(request).await.expect("attach");
        link.control().await;
        link
    }

    pub(crate) fn request(&self, instance: &str, policy: Option<Policy>) -> AttachRequest {
        AttachRequest {
            token: self.token(|_| ()),
            instance_id: instance.to_owned(),
            nonce: NONCE.to_vec().into(),
            policy,
        }
    }

    /// What the engine says of the container; waits until it has ended.
    pub(crate) async fn exit_code(&self) -> i32 {
        eventually("the container ends", || {
            let state = docker(&[
                "inspect",
                "-f",
                "{{.State.Status}} {{.State.ExitCode}}",
                &self.id,
            ]);
            state.strip_prefix("exited ").map(|c| c.parse().unwrap())
        })
        .await
    }

    pub(crate) fn workspace(&self, name: &str) -> PathBuf {
        self.dir.path().join("w").join(name)
    }
}

/// Waits for a condition.
pub(crate) async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let look = async {
        loop {
            if let Some(found) = look() {
                return found;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(PATIENCE, look)
        .await
        .unwrap_or_else(|_| panic!("waited in vain: {what}"))
}

#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) logs: Vec<LogLine>,
    pub(crate) exit: Option<Exit>,
    pub(crate) asked: Vec<EgressRequest>,
    pub(crate) names: Vec<String>,
}

/// The supervisor's end of a connection.
pub(crate) struct Link {
    pub(crate) client: SandboxClient<Channel>,
    raw: std::os::unix::net::UnixStream,
    pub(crate) heard: Arc<Mutex<Heard>>,
    /// Whether ends are acknowledged.
    pub(crate) acknowledge: Arc<Mutex<bool>>,
}

impl Link {
    async fn over(stream: UnixStream) -> Self {
        let stream = stream.into_std().unwrap();
        let raw = stream.try_clone().unwrap();
        let mut once = Some(UnixStream::from_std(stream).unwrap());
        let connector = tower::service_fn(move |_| {
            let taken = once.take().map(TokioIo::new);
            async move { taken.ok_or_else(|| std::io::Error::other("the link is gone")) }
        });
        let channel = Endpoint::from_static("http://link")
            .initial_stream_window_size(256 * 1024)
            .initial_connection_window_size(32 * 1024 * 1024)
            .connect_with_connector(connector)
            .await
            .unwrap();
        Self {
            client: SandboxClient::new(channel).max_decoding_message_size(1024 * 1024),
            raw,
            heard: Arc::default(),
            acknowledge: Arc::new(Mutex::new(true)),
        }
    }

    pub(crate) async fn attach(
        &mut self,
        request: AttachRequest,
    ) -> Result<AttachResponse, Status> {
        let (instance, token) = (request.instance_id.clone(), request.token.clone());
        let response = self.client.attach(request).await?.into_inner();
        assert!(
            token::verify_link_proof(&SECRET, &NONCE, &instance, &token, &response.proof),
            "the runtime proves itself"
        );
        Ok(response)
    }

    /// Opens the control stream and answers on it as a supervisor without any rule.
    pub(crate) async fn control(&mut self) {
        let (tx, rx) = mpsc::channel(64);
        let stream = self.client.control(ReceiverStream::new(rx)).await.unwrap();
        let mut stream: Streaming<ControlFromSandbox> = stream.into_inner();
        let (heard, acknowledge) = (Arc::clone(&self.heard), Arc::clone(&self.acknowledge));
        tokio::spawn(async move {
            while let Ok(Some(message)) = stream.message().await {
                let reply = match message.message.unwrap() {
                    FromSandbox::Log(line) => {
                        heard.lock().unwrap().logs.push(line);
                        continue;
                    }
                    FromSandbox::MainExit(exit) => {
                        heard.lock().unwrap().exit = Some(exit);
                        if !*acknowledge.lock().unwrap() {
                            continue;
                        }
                        ToSandbox::ExitAck(ExitAck {})
                    }
                    FromSandbox::Egress(request) => {
                        let id = request.id;
                        heard.lock().unwrap().asked.push(request);
                        ToSandbox::Egress(EgressDecision {
                            id,
                            ..EgressDecision::default()
                        })
                    }
                    FromSandbox::Name(question) => {
                        heard.lock().unwrap().names.push(question.name);
                        ToSandbox::Name(NameAnswer {
                            id: question.id,
                            ..NameAnswer::default()
                        })
                    }
                };
                let message = ControlFromSupervisor {
                    message: Some(reply),
                };
                if tx.send(message).await.is_err() {
                    return;
                }
            }
        });
    }

    /// As if the supervisor had been killed.
    pub(crate) fn cut(&self) {
        self.raw.shutdown(std::net::Shutdown::Both).unwrap();
    }

    pub(crate) async fn start_main(&mut self, spec: ProcessSpec) {
        self.start(spec, false).await;
    }

    pub(crate) async fn start(&mut self, spec: ProcessSpec, await_attachment: bool) {
        let request = StartMainRequest {
            process: Some(spec),
            await_attachment,
        };
        self.client.start_main(request).await.unwrap();
    }

    pub(crate) async fn exec(&mut self, spec: ProcessSpec) -> Running {
        let first = Input::Exec(spec);
        let (tx, rx) = mpsc::channel(4);
        tx.send(input(first)).await.unwrap();
        let stream = self.client.exec(ReceiverStream::new(rx)).await.unwrap();
        Running::new(tx, stream.into_inner())
    }

    pub(crate) async fn attach_main(&mut self, want_stdin: bool, replay: bool) -> Running {
        let first = Input::AttachMain(AttachMainStart { want_stdin, replay });
        let (tx, rx) = mpsc::channel(4);
        tx.send(input(first)).await.unwrap();
        let stream = self
            .client
            .attach_main(ReceiverStream::new(rx))
            .await
            .unwrap();
        Running::new(tx, stream.into_inner())
    }

    /// Runs a shell command to its end, with nothing on its input.
    pub(crate) async fn sh(&mut self, script: &str) -> Done {
        let mut running = self.exec(argv(&["sh", "-c", script])).await;
        running.input = None;
        running.finish().await
    }

    /// Waits for a log line that contains this.
    pub(crate) async fn logged(&self, part: &str) -> LogLine {
        eventually(part, || {
            let heard = self.heard.lock().unwrap();
            heard
                .logs
                .iter()
                .find(|l| l.message.contains(part))
                .cloned()
        })
        .await
    }
}

pub(crate) fn input(input: Input) -> ProcessInput {
    ProcessInput { input: Some(input) }
}

pub(crate) fn argv(argv: &[&str]) -> ProcessSpec {
    ProcessSpec {
        argv: argv.iter().map(|a| (*a).to_owned()).collect(),
        ..ProcessSpec::default()
    }
}

pub(crate) fn sh(script: &str) -> ProcessSpec {
    argv(&["sh", "-c", script])
}

/// How a process ended and what it said.
#[derive(Debug, Default)]
pub(crate) struct Done {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) exit: Exit,
}

impl Done {
    pub(crate) fn out(&self) -> String {
        String::from_utf8_lossy(&self.stdout).trim().to_owned()
    }

    pub(crate) fn err(&self) -> String {
        String::from_utf8_lossy(&self.stderr).trim().to_owned()
    }
}

/// A process in a stream.
pub(crate) struct Running {
    pub(crate) input: Option<mpsc::Sender<ProcessInput>>,
    pub(crate) output: Streaming<ProcessOutput>,
}

impl Running {
    fn new(input: mpsc::Sender<ProcessInput>, output: Streaming<ProcessOutput>) -> Self {
        Self {
            input: Some(input),
            output,
        }
    }

    pub(crate) async fn say(&self, message: Input) {
        self.input
            .as_ref()
            .unwrap()
            .send(input(message))
            .await
            .unwrap();
    }

    pub(crate) async fn next(&mut self) -> Option<Output> {
        let message = timeout(PATIENCE, self.output.message()).await;
        message
            .expect("a message in time")
            .ok()?
            .and_then(|m| m.output)
    }

    /// Reads until its output contains this.
    pub(crate) async fn until(&mut self, part: &str) -> String {
        let mut seen = String::new();
        while !seen.contains(part) {
            match self.next().await {
                Some(Output::Stdout(b) | Output::Stderr(b)) => {
                    seen.push_str(&String::from_utf8_lossy(&b));
                }
                Some(Output::Started(_)) => {}
                other => panic!("{other:?} before {part:?} in {seen:?}"),
            }
        }
        seen
    }

    pub(crate) async fn finish(&mut self) -> Done {
        let mut done = Done::default();
        loop {
            match self.next().await {
                Some(Output::Stdout(bytes)) => done.stdout.extend(bytes),
                Some(Output::Stderr(bytes)) => done.stderr.extend(bytes),
                Some(Output::Started(_)) => {}
                Some(Output::Exit(exit)) => {
                    done.exit = exit;
                    return done;
                }
                None => panic!("the stream ended before the process: {done:?}"),
            }
        }
    }
}
