//! Prints what each step of a run takes on the engine at hand, beside the same of the `docker` client:
//! `cargo run --release -p openshell-container --example timings -- IMAGE SANDBOX_BINARY SUPERVISOR_BINARY`.
#![allow(clippy::print_stdout, reason = "its purpose")]
#![allow(clippy::unwrap_used, reason = "a tool for developers")]

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use openshell_container::ContainerConfig;
use openshell_core::bootstrap::{SandboxBootstrap, SupervisorBootstrap};
use openshell_core::{Generation, ImageRef, SandboxId, SandboxName, SandboxSpec, WorkspaceName};
use openshell_driver_docker::{connect, sockets};
use openshell_lifecycle::ComputeDriver;
use openshell_lifecycle::driver::{Containers, Permit, RunRequest};

const ROUNDS: usize = 10;

#[derive(Default)]
struct Table(Vec<(&'static str, Vec<Duration>)>);

impl Table {
    fn add(&mut self, what: &'static str, took: Duration) {
        match self.0.iter_mut().find(|(name, _)| *name == what) {
            Some((_, all)) => all.push(took),
            None => self.0.push((what, vec![took])),
        }
    }

    fn print(&mut self) {
        for (what, all) in &mut self.0 {
            all.sort();
            println!(
                "{what:<28} {:>7.1} ms",
                all[all.len() / 2].as_secs_f64() * 1e3
            );
        }
    }
}

fn request(image: &str) -> RunRequest {
    let (sandbox, generation) = (SandboxId::random(), Generation(1));
    RunRequest {
        sandbox,
        name: SandboxName::new("timings").unwrap(),
        workspace: WorkspaceName::default_workspace(),
        generation,
        spec: Arc::new(SandboxSpec {
            image: Some(ImageRef(image.to_owned())),
            ..SandboxSpec::default()
        }),
        existing_workload: None,
        sandbox_bootstrap: SandboxBootstrap {
            sandbox_id: sandbox,
            generation,
            gateway_public_key: String::new(),
            link_secret: "run".to_owned(),
            supervisor_uid: 0,
            stop_grace_millis: 0,
        },
        supervisor_bootstrap: SupervisorBootstrap {
            sandbox_id: sandbox,
            sandbox_name: "timings".to_owned(),
            generation,
            gateway_endpoint: String::new(),
            gateway_ca_pem: String::new(),
            gateway_token: String::new(),
            sandbox_token: String::new(),
            link_secret: "run".to_owned(),
            workload_uid: 0,
            stop_grace_millis: 0,
        },
    }
}

fn docker(arguments: &[&str]) -> (Duration, String) {
    let begun = Instant::now();
    let output = Command::new("docker").args(arguments).output().unwrap();
    let words = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    assert!(output.status.success(), "docker {arguments:?}");
    (begun.elapsed(), words)
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let [_, image, sandbox, supervisor] = &arguments[..] else {
        println!("usage: timings IMAGE SANDBOX_BINARY SUPERVISOR_BINARY");
        return;
    };
    let config = ContainerConfig::new("timings", sandbox, supervisor);
    let driver = connect(sockets(None).unwrap(), config).unwrap();
    let mut table = Table::default();
    for _ in 0..ROUNDS {
        let mut run = request(image);
        let permit = Permit::for_tests(run.sandbox, run.generation);
        let (progress, _lines) = tokio::sync::mpsc::channel(16);
        let begun = Instant::now();
        driver
            .prepare_image(&permit, &ImageRef(image.clone()), progress)
            .await
            .unwrap();
        table.add("prepare_image", begun.elapsed());
        let step = Instant::now();
        let prepared = driver.prepare_run(&permit, &run).await.unwrap();
        table.add("prepare_run (new)", step.elapsed());
        let step = Instant::now();
        driver.launch(&permit, &prepared).await.unwrap();
        table.add("launch", step.elapsed());
        table.add("create in all", begun.elapsed());
        let step = Instant::now();
        let (one, two) = tokio::join!(
            driver.stop(&permit, &prepared.workload, Duration::ZERO),
            driver.stop(&permit, &prepared.supervisor, Duration::ZERO)
        );
        one.unwrap();
        two.unwrap();
        table.add("stop both at once", step.elapsed());
        let step = Instant::now();
        driver
            .remove_supervisor(&permit, &prepared.supervisor)
            .await
            .unwrap();
        table.add("remove_supervisor", step.elapsed());
        run.generation = run.generation.next();
        run.existing_workload = Some(prepared.workload);
        let permit = Permit::for_tests(run.sandbox, run.generation);
        let begun = Instant::now();
        let prepared = driver.prepare_run(&permit, &run).await.unwrap();
        table.add("prepare_run (kept)", begun.elapsed());
        driver.launch(&permit, &prepared).await.unwrap();
        table.add("start in all", begun.elapsed());
        let recorded = Containers {
            workload: Some(prepared.workload),
            supervisor: Some(prepared.supervisor),
        };
        let step = Instant::now();
        driver.remove(&permit, &recorded).await.unwrap();
        table.add("remove while running", step.elapsed());

        let (took, id) = docker(&["run", "-d", "--entrypoint", "sleep", image, "1000"]);
        table.add("docker run -d", took);
        table.add("docker stop -t 0", docker(&["stop", "-t", "0", &id]).0);
        table.add("docker start", docker(&["start", &id]).0);
        table.add("docker rm -f", docker(&["rm", "-f", &id]).0);
    }
    table.print();
}
