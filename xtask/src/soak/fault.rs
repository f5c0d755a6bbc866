//! The faults of a soak.

use std::time::Duration;

use anyhow::{Context as _, Result};
use openshell_e2e::choices::Choices;
use openshell_e2e::relay::{Calls, Half};
use openshell_e2e::{command, wait};
use rustix::process::{Pid, Signal};

use super::boxes::{Boxes, Verb};
use super::place::Place;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    Gateway(Signal),
    Engine(Signal),
    Both,
    Supervisor,
    Main,
    Cut,
    Asked,
}

const VERBS: [Verb; 5] = [
    Verb::Stop,
    Verb::Start,
    Verb::Start,
    Verb::Restart,
    Verb::Delete,
];

impl Fault {
    pub(super) fn all_but_gateways() -> Vec<Self> {
        vec![
            Self::Engine(Signal::KILL),
            Self::Engine(Signal::TERM),
            Self::Supervisor,
            Self::Main,
            Self::Cut,
            Self::Asked,
            Self::Asked,
        ]
    }

    pub(super) fn all() -> Vec<Self> {
        let mut all = Self::all_but_gateways();
        all.extend([
            Self::Gateway(Signal::KILL),
            Self::Gateway(Signal::TERM),
            Self::Both,
        ]);
        all
    }

    /// Has it happen, and says what did.
    pub(super) fn befall(
        self,
        place: &mut Place,
        boxes: &mut Boxes,
        choices: &mut Choices,
    ) -> Result<String> {
        match self {
            Self::Gateway(signal) => gateway(place, boxes, choices, signal),
            Self::Engine(signal) => engine(place, boxes, choices, signal),
            Self::Both => both(place, boxes, choices),
            Self::Supervisor => supervisor(place, boxes, choices),
            Self::Main => main(place, boxes, choices),
            Self::Cut => Ok(cut(place, choices)),
            Self::Asked => {
                let count = 1 + choices.index(3);
                asked(place, boxes, choices, count)
            }
        }
    }
}

fn pause(choices: &mut Choices, most: u64) {
    wait::pause(Duration::from_millis(choices.below(most)));
}

/// So many users ask for something.
fn asked(place: &Place, boxes: &mut Boxes, choices: &mut Choices, count: usize) -> Result<String> {
    let mut told = Vec::new();
    for _ in 0..count {
        let index = choices.index(boxes.0.len());
        let verb = choices.of(&VERBS);
        let one = &mut boxes.0[index];
        one.ask(place, verb)?;
        told.push(format!("{verb:?} {}", one.name));
    }
    Ok(if told.is_empty() {
        "nothing asked".to_owned()
    } else {
        told.join(", ")
    })
}

/// The gateway ends a moment after users have asked for something.
fn gateway(
    place: &mut Place,
    boxes: &mut Boxes,
    choices: &mut Choices,
    signal: Signal,
) -> Result<String> {
    let count = choices.index(3);
    let told = asked(place, boxes, choices, count)?;
    pause(choices, 600);
    place.gateway.end(signal)?;
    pause(choices, 1000);
    place.gateway.launch()?;
    Ok(format!("{told}; the gateway ended by {signal:?}"))
}

/// The engine ends a moment after users have asked for something; they ask for more while it is away; sometimes a
/// supervisor dies meanwhile.
fn engine(
    place: &mut Place,
    boxes: &mut Boxes,
    choices: &mut Choices,
    signal: Signal,
) -> Result<String> {
    let count = choices.index(3);
    let mut told = asked(place, boxes, choices, count)?;
    pause(choices, 600);
    let victim = match choices.below(3) {
        0 => victim(boxes, choices),
        _ => None,
    };
    let process = match victim {
        Some(index) => {
            boxes.0[index].end_run(place)?;
            Some(place.process(&boxes.0[index].name, Half::Supervisor)?)
        }
        None => None,
    };
    place.engine.end_daemon(signal)?;
    if let (Some(index), Some(process)) = (victim, process) {
        kill(process)?;
        let name = &boxes.0[index].name;
        told.push_str(&format!("; the supervisor of {name} killed"));
    }
    let count = choices.index(3);
    let more = asked(place, boxes, choices, count)?;
    pause(choices, 2000);
    place.engine.start_daemon()?;
    Ok(format!("{told}; the engine ended by {signal:?}; {more}"))
}

fn both(place: &mut Place, boxes: &mut Boxes, choices: &mut Choices) -> Result<String> {
    let count = choices.index(3);
    let told = asked(place, boxes, choices, count)?;
    pause(choices, 600);
    if choices.below(2) == 0 {
        place.gateway.end(Signal::KILL)?;
        place.engine.end_daemon(Signal::KILL)?;
    } else {
        place.engine.end_daemon(Signal::KILL)?;
        place.gateway.end(Signal::TERM)?;
    }
    pause(choices, 1000);
    place.gateway.spawn()?;
    pause(choices, 1000);
    place.engine.start_daemon()?;
    place.gateway.wait_ready()?;
    Ok(format!("{told}; the gateway and the engine ended"))
}

/// One that runs.
fn victim(boxes: &Boxes, choices: &mut Choices) -> Option<usize> {
    let running: Vec<usize> = (0..boxes.0.len())
        .filter(|index| boxes.0[*index].runs())
        .collect();
    (!running.is_empty()).then(|| choices.of(&running))
}

fn kill(process: i32) -> Result<()> {
    let process = Pid::from_raw(process).context("not a process id")?;
    rustix::process::kill_process(process, Signal::KILL).context("it cannot be killed")
}

fn supervisor(place: &Place, boxes: &mut Boxes, choices: &mut Choices) -> Result<String> {
    let Some(index) = victim(boxes, choices) else {
        return Ok("nobody runs".to_owned());
    };
    let one = &mut boxes.0[index];
    one.end_run(place)?;
    kill(place.process(&one.name, Half::Supervisor)?)?;
    Ok(format!("the supervisor of {} killed", one.name))
}

fn main(place: &Place, boxes: &mut Boxes, choices: &mut Choices) -> Result<String> {
    let Some(index) = victim(boxes, choices) else {
        return Ok("nobody runs".to_owned());
    };
    let one = &mut boxes.0[index];
    one.end_run(place)?;
    let script = "kill -9 $(cat /sandbox/pid)";
    let words = [
        "sandbox",
        "exec",
        &one.name,
        "--no-login-shell",
        "--",
        "sh",
        "-c",
        script,
    ];
    // The command may be ended together with what it ends.
    command::run(&mut place.cli(&words))?;
    Ok(format!("the main of {} killed", one.name))
}

fn cut(place: &Place, choices: &mut Choices) -> String {
    let (what, calls) = match choices.below(3) {
        0 => ("events", Calls::events()),
        1 => ("waits", Calls::waits()),
        _ => ("all connections", Calls::all()),
    };
    let count = place.relay.cut(&calls);
    format!("{what} cut ({count})")
}
