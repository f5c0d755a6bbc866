//! What the runtime costs.

use std::time::Instant;

use crate::support::{Sandbox, argv, docker, sh};

/// A line of PID 1's status, in KiB.
async fn status(link: &mut crate::support::Link, field: &str) -> u64 {
    let line = link.sh(&format!("grep {field} /proc/1/status")).await.out();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_runtime_is_small_and_an_exec_is_fast() {
    let sandbox = Sandbox::start();
    let mut link = sandbox.accept().await;
    let begun = Instant::now();
    link.attach(sandbox.request("a", None)).await.unwrap();
    println!("attach: {:?}", begun.elapsed());
    link.control().await;
    let begun = Instant::now();
    link.start_main(sh("sleep 1000")).await;
    println!("start of main: {:?}", begun.elapsed());
    let idle = status(&mut link, "VmRSS").await;
    let mut took = Vec::new();
    for _ in 0..20 {
        let begun = Instant::now();
        link.exec(argv(&["true"])).await.finish().await;
        took.push(begun.elapsed());
    }
    took.sort();
    println!("exec of true: {:?} (median of 20)", took[10]);
    link.sh("head -c 20000000 /dev/zero").await;
    let after = status(&mut link, "VmRSS").await;
    println!("resident: {idle} KiB idle, {after} KiB after 20 MB of output");
    println!("{}", link.sh("cat /proc/1/status").await.out());
    println!(
        "threads: {}",
        docker(&["top", &sandbox.id, "-o", "pid,nlwp,args"])
    );
    println!(
        "{:?}",
        std::process::Command::new("docker")
            .args(["logs", &sandbox.id])
            .output()
    );
    // Only the small build promises the small figure.
    if std::env::var_os("OPENSHELL_TEST_SANDBOX").is_some() {
        assert!(idle <= 4 * 1024, "{idle} KiB");
    }
    assert!(after < 32 * 1024, "{after} KiB");
}
