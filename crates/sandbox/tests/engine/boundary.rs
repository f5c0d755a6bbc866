//! What a workload cannot do.

use std::net::TcpListener;

use openshell_proto::link::forward_frame::Frame;
use openshell_proto::link::process_output::Output;
use openshell_proto::link::{ForwardFrame, ForwardOpen, Policy};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Code;

use crate::support::{Sandbox, argv, docker, eventually};

/// A bridge of our own, with a listener of our own on this machine's address on it.
struct Outside {
    network: String,
    listener: TcpListener,
}

impl Outside {
    fn new() -> Self {
        let name = format!("openshell-sandbox-test-{}", std::process::id());
        let label = "openshell.ai/made-by=sandbox-tests";
        let network = docker(&["network", "create", "--label", label, &name]);
        let format = "{{(index .IPAM.Config 0).Gateway}}";
        let address = docker(&["network", "inspect", &network, "-f", format]);
        let listener = TcpListener::bind((address.as_str(), 0)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self { network, listener }
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        docker(&["network", "rm", &self.network]);
    }
}

#[tokio::test]
async fn a_connection_outside_is_refused_at_once_logged_and_seen_by_nobody() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let outside = Outside::new();
    let target = outside.listener.local_addr().unwrap();
    let script = format!(
        "a=$(cut -d' ' -f1 /proc/uptime); nc -w 5 {} {}; echo $? $a $(cut -d' ' -f1 /proc/uptime)",
        target.ip(),
        target.port()
    );
    let mut fastest = f64::MAX;
    for _ in 0..5 {
        let done = link.sh(&script).await;
        let words: Vec<f64> = done.out().split(' ').map(|w| w.parse().unwrap()).collect();
        assert_eq!(words[0], 1.0, "{done:?}");
        assert!(done.err().contains("refused"), "{done:?}");
        fastest = fastest.min(words[2] - words[1]);
    }
    // The best of a few: a busy machine takes longer to start the programs around it.
    assert!(fastest < 0.05, "took {fastest} s");
    assert!(outside.listener.accept().is_err(), "somebody came");
    let asked = link.heard.lock().unwrap().asked.pop().unwrap();
    assert_eq!(asked.binary, "/bin/busybox");
    assert_eq!(asked.ancestors, ["/bin/busybox"]);
    assert_eq!(asked.address, target.ip().to_string());
    assert_eq!(
        (asked.transport.as_str(), asked.port),
        ("tcp", u32::from(target.port()))
    );
}

#[tokio::test]
async fn loopback_works_and_is_forwarded_to() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let done = link
        .sh("(echo pong | nc -l -p 4000 >/dev/null &); i=0; until nc 127.0.0.1 4000 </dev/null; do i=$((i+1)); [ $i -lt 200 ] || exit 1; usleep 10000; done")
        .await;
    assert_eq!(done.out(), "pong", "{done:?}");

    let mut server = link
        .exec(argv(&["nc", "-l", "-p", "4001", "-e", "tr", "a-z", "A-Z"]))
        .await;
    assert!(matches!(server.next().await, Some(Output::Started(_))));
    let frame = |frame| ForwardFrame { frame: Some(frame) };
    let open = |host: &str| {
        frame(Frame::Open(ForwardOpen {
            host: host.to_owned(),
            port: 4001,
        }))
    };
    let mut got = Vec::new();
    let deadline = std::time::Instant::now() + crate::support::PATIENCE;
    while got.is_empty() {
        assert!(std::time::Instant::now() < deadline, "nobody listens");
        let (tx, rx) = tokio::sync::mpsc::channel(4);
        tx.send(open("localhost")).await.unwrap();
        tx.send(frame(Frame::Data("abc".into()))).await.unwrap();
        drop(tx);
        let stream = link.client.forward(ReceiverStream::new(rx)).await.unwrap();
        let mut stream = stream.into_inner();
        while let Ok(Some(answer)) = stream.message().await {
            if let Some(Frame::Data(data)) = answer.frame {
                got.extend(data);
            }
        }
    }
    assert_eq!(got, b"ABC");
    let (tx, rx) = tokio::sync::mpsc::channel(4);
    tx.send(open("192.0.2.1")).await.unwrap();
    let stream = link.client.forward(ReceiverStream::new(rx)).await.unwrap();
    let refused = stream.into_inner().message().await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument);
}

#[tokio::test]
async fn names_do_not_exist_and_datagrams_do_not_leave() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    // Where an image's configuration is pointed to, and where a program asks that finds none.
    for server in ["127.0.0.53", "127.0.0.1"] {
        let done = link.sh(&format!("nslookup example.com {server}")).await;
        let said = done.out() + &done.err();
        assert!(said.contains("NXDOMAIN"), "{server}: {said}");
    }
    // A resolver that connects its datagram socket learns at once that nothing leads there, and nobody is asked.
    let done = link.sh("nslookup example.com 192.0.2.53; echo $?").await;
    assert!(!done.out().ends_with('0'), "{done:?}");
    let line = link.logged("192.0.2.53:53 (udp)").await;
    assert_eq!(line.level, "debug", "{line:?}");
    assert!(link.heard.lock().unwrap().asked.is_empty());
    let done = link.sh("tftp -g -r x -l /tmp/x 192.0.2.53").await;
    assert!(done.err().contains("unreachable"), "{done:?}");
    let line = link.logged("192.0.2.53:69 (udp)").await;
    assert_eq!(line.fields["destination"], "192.0.2.53:69");
    assert_eq!(line.fields["binary"], "/bin/busybox");
    assert!(
        link.heard
            .lock()
            .unwrap()
            .names
            .contains(&"example.com".to_owned())
    );
}

#[tokio::test]
async fn the_reserved_tree_and_everything_not_granted_is_out_of_reach() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    for script in [
        "ls /.openshell",
        "ls /.openshell/link",
        "cat /.openshell/bin/openshell-sandbox",
        "/.openshell/bin/openshell-sandbox --version",
        "cat /proc/1/root/.openshell/bin/openshell-sandbox",
        "nc local:/.openshell/link/3.sock </dev/null",
        "cd /.openshell/link && nc local:3.sock </dev/null",
        "cd /.openshell/link && nc local:/proc/self/cwd/3.sock </dev/null",
        "echo x > /etc/x",
        "echo x > /x",
        "mkdir /new",
        "ls /",
        "cat /proc/1/environ",
        "cat /proc/1/mem",
        "ls /proc/1/fd",
        "mount -t tmpfs none /tmp",
        "unshare -U true",
        "unshare -n true",
        "chroot /tmp true",
    ] {
        let done = link.sh(script).await;
        assert_ne!(done.exit.code, 0, "{script} succeeded: {done:?}");
        assert!(done.out().is_empty(), "{script}: {done:?}");
    }
    let done = link
        .sh("cd /tmp && echo a > a && cat a && echo b > /sandbox/b && cat /sandbox/b && echo c > /dev/null && ls /usr /etc >/dev/null; cat /bin/busybox | head -c 4 | wc -c")
        .await;
    assert_eq!(done.out(), "a\nb\n4", "{done:?}");
}

#[tokio::test]
async fn pid_1_cannot_be_signalled() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    for signal in ["TERM", "KILL", "STOP", "INT", "CHLD"] {
        let done = link.sh(&format!("kill -{signal} 1")).await;
        assert_eq!(done.exit.code, 1, "{signal}: {done:?}");
    }
    // Its threads are pid 1 too, whatever number they are called by.
    let done = link
        .sh("for i in 2 3 4 5 6 7 8 9 10 11 12; do [ $i = $$ ] || kill -TERM $i 2>/dev/null; done; kill -TERM -1; exit 0")
        .await;
    assert!([0, 143].contains(&done.exit.code), "{done:?}");
    assert_eq!(link.sh("echo alive").await.out(), "alive");
}

#[tokio::test]
async fn a_policy_grants_what_it_lists_and_no_more() {
    let sandbox = Sandbox::start();
    let policy = Policy {
        read_only: vec!["/bin".to_owned(), "/nowhere".to_owned()],
        read_write: vec!["/sandbox".to_owned()],
        include_workdir: true,
        hard_requirement: false,
    };
    let mut link = sandbox.attach_with("a", Some(policy)).await;
    assert_eq!(
        link.sh("echo x > /sandbox/x; cat /sandbox/x").await.out(),
        "x"
    );
    for script in ["cat /etc/hostname", "echo x > /tmp/x", "ls /proc"] {
        assert_ne!(link.sh(script).await.exit.code, 0, "{script}");
    }
    assert!(
        link.logged("do not exist")
            .await
            .message
            .contains("/nowhere")
    );
}

#[tokio::test]
async fn a_policy_cannot_grant_the_reserved_tree_and_a_missing_path_can_be_an_error() {
    for (path, hard) in [
        ("/.openshell/link", false),
        ("/nowhere", true),
        ("bin", false),
    ] {
        let sandbox = Sandbox::start();
        let policy = Policy {
            read_only: vec![path.to_owned()],
            hard_requirement: hard,
            ..Policy::default()
        };
        let mut link = sandbox.accept().await;
        let response = link
            .attach(sandbox.request("a", Some(policy)))
            .await
            .unwrap();
        let posture = response.posture.unwrap();
        let fault = posture.properties.iter().find(|p| !p.enforced).unwrap();
        assert_eq!(fault.name, "filesystem_confinement");
        assert!(fault.mechanism.contains(path), "{fault:?}");
    }
    let sandbox = Sandbox::start();
    let policy = Policy {
        read_only: vec!["/".to_owned()],
        ..Policy::default()
    };
    let mut link = sandbox.attach_with("a", Some(policy)).await;
    assert_eq!(link.sh("head -c 1 /bin/busybox | wc -c").await.out(), "1");
    assert_ne!(link.sh("ls /.openshell").await.exit.code, 0);
}

#[tokio::test]
async fn processes_are_bounded_and_the_runtime_survives_running_out_of_them() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.attach("a").await;
    let bomb = link
        .exec(argv(&[
            "sh",
            "-c",
            "i=0; while [ $i -lt 400 ]; do sleep 1000 & i=$((i+1)); done; wait",
        ]))
        .await;
    eventually("the limit is reached", || {
        let count = docker(&["top", &sandbox.id]).lines().count();
        (count > 150).then_some(())
    })
    .await;
    drop(bomb);
    link.client
        .stop(openshell_proto::link::StopRequest { grace_millis: 500 })
        .await
        .unwrap();
    sandbox.exit_code().await;
}
