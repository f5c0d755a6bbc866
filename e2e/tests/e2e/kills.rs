//! The gateway is killed at random moments of create, start, stop, restart and delete, and started again: each sandbox
//! ends as it was last asked, main has run at most once for each accepted start, and nothing is left of what is deleted.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher as _;
use std::time::Duration;

use openshell_e2e::choices::Choices;
use openshell_e2e::command;
use openshell_e2e::wait;
use rustix::process::Signal;
use serde_json::Value;

use crate::world::World;

const KILLS: usize = 200;
/// So many gateways live, and die, side by side.
const WORLDS: usize = 8;
const NAMES: [&str; 3] = ["ada", "bob", "eve"];
/// The machine may be busy with other things; nothing waits this long when all is well.
const PATIENCE: Duration = Duration::from_secs(90);
/// Beyond the longest of the five operations.
const MOMENTS: u64 = 1500;
const MAIN: &[&str] = &["sh", "-c", "echo run >> /sandbox/boots; exec sleep 1000000"];

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verb {
    Create,
    Start,
    Stop,
    Restart,
    Delete,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    Absent,
    Ready,
    Stopped,
}

impl Verb {
    /// What a command leads to once it is accepted.
    const fn leads_to(self) -> State {
        match self {
            Self::Create | Self::Start | Self::Restart => State::Ready,
            Self::Stop => State::Stopped,
            Self::Delete => State::Absent,
        }
    }
}

/// What is known of one sandbox.
#[derive(Debug)]
struct Sandbox {
    name: &'static str,
    state: State,
    generation: u64,
    /// Accepted since it was created.
    starts: usize,
    history: Vec<String>,
}

impl Sandbox {
    const fn new(name: &'static str) -> Self {
        Self {
            name,
            state: State::Absent,
            generation: 0,
            starts: 0,
            history: Vec::new(),
        }
    }

    fn choose(&self, choices: &mut Choices) -> Verb {
        match self.state {
            State::Absent => Verb::Create,
            State::Ready => choices.of(&[Verb::Stop, Verb::Restart, Verb::Delete, Verb::Start]),
            State::Stopped => choices.of(&[Verb::Start, Verb::Start, Verb::Restart, Verb::Delete]),
        }
    }

    /// What a command has come to. One without an answer may have been accepted: the record tells.
    fn conclude(&mut self, verb: Verb, accepted: bool, record: Option<&Value>) {
        let state = match record.map(|r| r["phase"].as_str().unwrap_or_default()) {
            None => State::Absent,
            Some("Ready") => State::Ready,
            Some("Stopped") => State::Stopped,
            Some(other) => panic!("{other} is no end: {self:?}"),
        };
        let generation = record.map_or(0, |r| r["generation"].as_u64().unwrap_or(0));
        let asked = verb.leads_to();
        if accepted {
            assert_eq!(state, asked, "not as it was asked last: {self:?}");
        } else {
            let either = state == asked || state == self.state;
            assert!(either, "neither as asked nor as before: {state:?} {self:?}");
        }
        if self.state == State::Absent || state == State::Absent {
            self.starts = 0;
        }
        let began = generation > self.generation;
        // A start of what is Ready begins nothing.
        let asks = asked == State::Ready && !(verb == Verb::Start && self.state == State::Ready);
        if asks && state != State::Absent && (accepted || began) {
            self.starts += 1;
        }
        self.state = state;
        self.generation = generation;
    }
}

#[test]
fn l2_l10_l12_l13_a_gateway_that_is_killed_at_any_moment_keeps_its_word() {
    let seed = std::env::var("OPENSHELL_E2E_SEED").map_or_else(
        |_| RandomState::new().hash_one(KILLS),
        |text| text.parse().expect("OPENSHELL_E2E_SEED is a number"),
    );
    println!("OPENSHELL_E2E_SEED={seed}");
    std::thread::scope(|scope| {
        for index in 0..WORLDS {
            scope.spawn(move || {
                let mut choices = Choices::new(seed ^ (index as u64 + 1));
                life(&format!("kills-{index}"), KILLS / WORLDS, &mut choices);
            });
        }
    });
}

/// Kills one gateway so many times.
fn life(name: &str, kills: usize, choices: &mut Choices) {
    let mut world = World::new(name);
    let mut sandboxes = NAMES.map(Sandbox::new);
    let mut killed = 0;
    while killed < kills {
        let verbs = sandboxes.each_ref().map(|sandbox| sandbox.choose(choices));
        let accepted = ask_and_kill(&mut world, &verbs, choices.below(MOMENTS));
        for ((sandbox, verb), accepted) in sandboxes.iter_mut().zip(verbs).zip(accepted) {
            sandbox
                .history
                .push(format!("{verb:?}, accepted: {accepted}"));
        }
        killed += 1;
        world.gateway.launch().expect("it comes back");
        // And sometimes again, while it takes everything up.
        if killed < kills && choices.below(4) == 0 {
            wait::pause(Duration::from_millis(choices.below(400)));
            world.gateway.end(Signal::KILL).expect("it dies");
            world.gateway.launch().expect("it comes back");
            killed += 1;
        }
        let records = settle(&world);
        for ((sandbox, verb), accepted) in sandboxes.iter_mut().zip(verbs).zip(accepted) {
            let record = records.iter().find(|r| r["name"] == sandbox.name);
            sandbox.conclude(verb, accepted, record);
        }
        sandboxes
            .iter()
            .for_each(|sandbox| main_ran(&world, sandbox));
        engine_agrees(&world, &sandboxes);
    }
    world.ok(&["sandbox", "delete", "--all", "--yes"]);
    world.nothing_is_left();
}

/// Gives every sandbox its command, all at once, and kills the gateway so much later. Says which were accepted.
fn ask_and_kill(world: &mut World, verbs: &[Verb; 3], moment: u64) -> [bool; 3] {
    let mut commands = [0, 1, 2].map(|index| {
        let name = NAMES[index];
        let mut cli = world.gateway.cli();
        match verbs[index] {
            Verb::Create => {
                cli.args([
                    "sandbox",
                    "create",
                    "--name",
                    name,
                    "--detach",
                    "--no-wait",
                    "--",
                ]);
                cli.args(MAIN)
            }
            Verb::Start => cli.args(["sandbox", "start", name, "--no-wait"]),
            Verb::Stop => cli.args(["sandbox", "stop", name, "--no-wait"]),
            Verb::Restart => cli.args(["sandbox", "restart", name, "--no-wait"]),
            Verb::Delete => cli.args(["sandbox", "delete", name, "--no-wait"]),
        };
        cli
    });
    let gateway = &mut world.gateway;
    std::thread::scope(|scope| {
        let asked = commands.each_mut().map(|cli| {
            scope.spawn(move || command::run_with(cli, &[], PATIENCE).expect("the CLI ends"))
        });
        wait::pause(Duration::from_millis(moment));
        gateway.end(Signal::KILL).expect("it dies");
        asked.map(|asked| asked.join().expect("the CLI ends").code == 0)
    })
}

/// Waits until no sandbox is on its way any more, and gives the records.
fn settle(world: &World) -> Vec<Value> {
    let mut last = Vec::new();
    let found = wait::until("every sandbox to settle", PATIENCE, || {
        let listed = world.ok(&["sandbox", "list", "-o", "json"]).json()?;
        last = listed["sandboxes"].as_array().cloned().unwrap_or_default();
        let still = |r: &Value| matches!(r["phase"].as_str(), Some("Ready" | "Stopped" | "Error"));
        Ok(last.iter().all(still).then_some(()))
    });
    let failed = last.iter().find(|r| r["phase"] == "Error");
    if let (Err(_), _) | (_, Some(_)) = (&found, failed) {
        let names = last.iter().filter_map(|r| r["name"].as_str());
        let journals: Vec<_> = names.map(|name| world.events(name)).collect();
        panic!("{found:?}: {last:#?}\n{}", journals.join("\n\n"));
    }
    last
}

/// Main has run at most once for each accepted start, and for each run that there was.
fn main_ran(world: &World, sandbox: &Sandbox) {
    if sandbox.state == State::Absent {
        return;
    }
    let boots = || boots(world, sandbox.name);
    let seen = match sandbox.state {
        // Ready says that it was started, not that its shell has come to the line that notes it.
        State::Ready => wait::until("main's note", PATIENCE, || Ok(boots().filter(|n| *n > 0)))
            .unwrap_or_else(|error| panic!("{error:#}: {sandbox:?}")),
        _ => boots().unwrap_or(0),
    };
    let most = u64::try_from(seen).expect("small");
    if seen > sandbox.starts || most > sandbox.generation {
        panic!(
            "main ran {seen} times: {sandbox:#?}\n{}",
            world.events(sandbox.name)
        );
    }
}

/// Lines in the file in which main notes its runs; none if nothing was made yet.
fn boots(world: &World, name: &str) -> Option<usize> {
    let containers = containers(world);
    let workload = containers
        .iter()
        .find(|c| c.name == name && c.role == "sandbox")?;
    let mut docker = world.gateway.docker();
    docker.args(["cp", &format!("{}:/sandbox/boots", workload.id), "-"]);
    let archive = command::run(&mut docker)
        .expect("the engine answers")
        .stdout;
    let mut archive = tar::Archive::new(archive.as_slice());
    let mut entry = archive.entries().ok()?.next()?.ok()?;
    let mut text = String::new();
    std::io::Read::read_to_string(&mut entry, &mut text).ok()?;
    Some(text.lines().count())
}

struct Container {
    id: String,
    name: String,
    role: String,
    running: bool,
}

/// By the engine's own word.
fn containers(world: &World) -> Vec<Container> {
    let namespace = &world.gateway.settings().namespace;
    let filter = format!("label=openshell.ai/sandbox-namespace={namespace}");
    let format = r#"{{.ID}} {{.Label "openshell.ai/sandbox-name"}} {{.Label "openshell.ai/isolation-role"}} {{.State}}"#;
    let listed = world.docker(&["ps", "-a", "--filter", &filter, "--format", format]);
    let listed = listed.text();
    let line = |line: &str| {
        let words: Vec<&str> = line.split(' ').collect();
        let [id, name, role, state] = words[..] else {
            panic!("not as asked for: {line:?}");
        };
        Container {
            id: id.to_owned(),
            name: name.to_owned(),
            role: role.to_owned(),
            running: state == "running",
        }
    };
    listed.lines().map(line).collect()
}

/// What runs is what is Ready; what is deleted has left nothing. The removal of ended supervisors may still go on.
fn engine_agrees(world: &World, sandboxes: &[Sandbox]) {
    let fits = |all: &[Container], sandbox: &Sandbox| {
        let its: Vec<_> = all.iter().filter(|c| c.name == sandbox.name).collect();
        let running = its.iter().filter(|c| c.running).count();
        match sandbox.state {
            State::Absent => its.is_empty(),
            State::Ready => (its.len(), running) == (2, 2),
            State::Stopped => its.len() <= 1 && running == 0,
        }
    };
    let agrees = wait::until("the engine to agree", PATIENCE, || {
        let all = containers(world);
        Ok(sandboxes.iter().all(|s| fits(&all, s)).then_some(()))
    });
    if let Err(error) = agrees {
        let seen: Vec<_> = containers(world)
            .into_iter()
            .map(|c| format!("{} {} {} {}", c.id, c.name, c.role, c.running))
            .collect();
        panic!("{error:#}: {sandboxes:#?} {seen:#?}");
    }
}
