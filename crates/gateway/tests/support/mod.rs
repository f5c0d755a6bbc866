//! A real gateway process in directories of its own.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use openshell_proto::openshell::v1::open_shell_client::OpenShellClient;
use rustix::process::{Pid, Signal, kill_process};
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Identity};

/// Nothing here takes this long; a test that does has failed.
pub(crate) const DEADLINE: Duration = Duration::from_secs(30);

/// Directories for one gateway after another.
pub(crate) struct Home {
    dir: tempfile::TempDir,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let runtime = dir.path().join("runtime");
        std::fs::create_dir(&runtime).unwrap();
        // Any program will do: no sandbox is made here.
        let program = std::fs::canonicalize("/bin/true").unwrap();
        for name in ["openshell-sandbox", "openshell-supervisor"] {
            std::fs::copy(&program, runtime.join(name)).unwrap();
        }
        Self { dir }
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    pub(crate) fn state(&self) -> PathBuf {
        self.path().join("state/openshell/gateway")
    }

    pub(crate) fn registry(&self) -> PathBuf {
        self.path().join("config/openshell")
    }

    /// The gateway's command, cut off from the machine's own configuration and engine.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_openshell-gateway"));
        command
            .args(arguments)
            .env_clear()
            .env("HOME", self.path())
            .env("USER", "tester")
            .env("XDG_CONFIG_HOME", self.path().join("config"))
            .env("XDG_STATE_HOME", self.path().join("state"))
            .env("OPENSHELL_RUNTIME_DIR", self.path().join("runtime"))
            .env(
                "OPENSHELL_DRIVERS_DOCKER_SOCKET_PATH",
                self.path().join("no-engine.sock"),
            )
            .stdin(Stdio::null());
        command
    }

    /// Runs a command that ends by itself.
    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Starts one on a free port and waits until it serves.
    pub(crate) fn start(&self, arguments: &[&str]) -> Gateway {
        let mut all = vec!["--bind-address", "127.0.0.1:0"];
        all.extend(arguments);
        Gateway::start(self.command(&all))
    }
}

/// One that serves.
pub(crate) struct Gateway {
    child: Child,
    pub(crate) endpoint: String,
    lines: Receiver<String>,
}

impl Gateway {
    pub(crate) fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        let mut gateway = Self {
            child,
            endpoint: String::new(),
            lines,
        };
        let serving = gateway.wait_for_line(r#""message":"serving""#);
        let entry: serde_json::Value = serde_json::from_str(&serving).unwrap();
        gateway.endpoint = entry["endpoint"].as_str().unwrap().to_owned();
        gateway
    }

    /// The next log line that contains a text.
    pub(crate) fn wait_for_line(&self, text: &str) -> String {
        let deadline = Instant::now() + DEADLINE;
        let mut seen = String::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line.contains(text) => return line,
                Ok(line) => seen.push_str(&format!("{line}\n")),
                Err(_) => panic!("the gateway did not say {text:?}, but:\n{seen}"),
            }
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        let (_, address) = self.endpoint.split_once("://").unwrap();
        address.parse().unwrap()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(i32::try_from(self.pid()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
    }

    /// Waits for its end; answers how, and how long it took.
    pub(crate) fn wait(&mut self) -> (ExitStatus, Duration) {
        let began = Instant::now();
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return (status, began.elapsed());
            }
            assert!(began.elapsed() < DEADLINE, "the gateway does not end");
            std::thread::park_timeout(Duration::from_millis(5));
        }
    }

    /// A client by the certificate that the gateway registered, of another set, or of none.
    pub(crate) async fn client(
        &self,
        ca: &Path,
        identity: Option<&Path>,
    ) -> Result<OpenShellClient<Channel>, tonic::transport::Error> {
        let read = |path: PathBuf| std::fs::read(path).unwrap();
        let mut tls =
            ClientTlsConfig::new().ca_certificate(Certificate::from_pem(read(ca.join("ca.crt"))));
        if let Some(dir) = identity {
            tls = tls.identity(Identity::from_pem(
                read(dir.join("tls.crt")),
                read(dir.join("tls.key")),
            ));
        }
        let channel = Channel::from_shared(self.endpoint.clone())
            .unwrap()
            .tls_config(tls)?
            .timeout(DEADLINE)
            .connect()
            .await?;
        Ok(OpenShellClient::new(channel))
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A page over plaintext HTTP/1.1.
pub(crate) fn page(address: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    write!(
        stream,
        "GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// A port that was free a moment ago.
pub(crate) fn free_address() -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
