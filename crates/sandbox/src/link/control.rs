//! The control stream's state: questions that wait for answers, log lines, and the end of main, which is kept
//! until it is acknowledged. All of it survives the loss of a connection but the questions.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Mutex;
use std::time::Duration;

use openshell_proto::link::control_from_sandbox::Message as Out;
use openshell_proto::link::control_from_supervisor::Message as In;
use openshell_proto::link::{
    ControlFromSandbox, ControlFromSupervisor, EgressDecision, EgressRequest, Exit, LogLine,
    NameAnswer, NameQuestion,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::timeout;

use crate::clock;
use crate::processes::locked;

/// Messages on their way; beyond that log lines are counted, not kept.
pub(crate) const QUEUE: usize = 256;
/// Log lines kept while there is no link.
const BACKLOG: usize = 256;
/// Questions that wait at once.
const MAX_QUESTIONS: usize = 512;
/// An answer that takes longer is none.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Inner {
    link: Option<(u64, mpsc::Sender<ControlFromSandbox>)>,
    links: u64,
    egress: HashMap<u64, oneshot::Sender<EgressDecision>>,
    names: HashMap<u64, oneshot::Sender<NameAnswer>>,
    questions: u64,
    backlog: VecDeque<LogLine>,
    dropped: u64,
    exit: Option<Exit>,
}

/// The hub.
pub(crate) struct Control {
    inner: Mutex<Inner>,
    acknowledged: watch::Sender<bool>,
    linked: watch::Sender<bool>,
}

fn message(out: Out) -> ControlFromSandbox {
    ControlFromSandbox { message: Some(out) }
}

impl Control {
    /// Without a link yet.
    pub(crate) fn new() -> Self {
        Self {
            inner: Mutex::default(),
            acknowledged: watch::Sender::new(false),
            linked: watch::Sender::new(false),
        }
    }

    /// A control stream begins: what was kept is sent. The answer names it for [`Self::disconnect`].
    pub(crate) fn connect(&self, link: mpsc::Sender<ControlFromSandbox>) -> u64 {
        let mut inner = locked(&self.inner);
        inner.links += 1;
        let name = inner.links;
        if let Some(exit) = inner.exit.clone() {
            let _full = link.try_send(message(Out::MainExit(exit)));
        }
        while let Some(line) = inner.backlog.pop_front() {
            if link.try_send(message(Out::Log(line.clone()))).is_err() {
                inner.backlog.push_front(line);
                break;
            }
        }
        inner.link = Some((name, link));
        self.linked.send_replace(true);
        name
    }

    /// It has ended: its questions fail.
    pub(crate) fn disconnect(&self, name: u64) {
        let mut inner = locked(&self.inner);
        if inner.link.as_ref().is_some_and(|(n, _)| *n == name) {
            inner.link = None;
            self.linked.send_replace(false);
            inner.egress.clear();
            inner.names.clear();
        }
    }

    /// What the supervisor says.
    pub(crate) fn receive(&self, message: ControlFromSupervisor) {
        let mut inner = locked(&self.inner);
        match message.message {
            Some(In::Egress(decision)) => {
                if let Some(waiting) = inner.egress.remove(&decision.id) {
                    let _gone = waiting.send(decision);
                }
            }
            Some(In::Name(answer)) => {
                if let Some(waiting) = inner.names.remove(&answer.id) {
                    let _gone = waiting.send(answer);
                }
            }
            Some(In::ExitAck(_)) if inner.exit.is_some() => {
                self.acknowledged.send_replace(true);
            }
            Some(In::ExitAck(_)) | None => {}
        }
    }

    /// Asks whether a connection may be made; `None` if nobody answers.
    pub(crate) async fn ask_egress(&self, mut request: EgressRequest) -> Option<EgressDecision> {
        let (tx, rx) = oneshot::channel();
        let id = {
            let mut inner = locked(&self.inner);
            let id = inner.question()?;
            request.id = id;
            inner.send(Out::Egress(request))?;
            inner.egress.insert(id, tx);
            id
        };
        let answer = timeout(PATIENCE, rx).await;
        locked(&self.inner).egress.remove(&id);
        answer.ok()?.ok()
    }

    /// Asks for the addresses of a name; `None` if nobody answers.
    pub(crate) async fn ask_name(&self, name: String, record_type: u32) -> Option<NameAnswer> {
        let (tx, rx) = oneshot::channel();
        let id = {
            let mut inner = locked(&self.inner);
            let id = inner.question()?;
            inner.send(Out::Name(NameQuestion {
                id,
                name,
                record_type,
            }))?;
            inner.names.insert(id, tx);
            id
        };
        let answer = timeout(PATIENCE, rx).await;
        locked(&self.inner).names.remove(&id);
        answer.ok()?.ok()
    }

    /// Reports the end of main, now and after every reconnect, until it is acknowledged.
    pub(crate) fn report_exit(&self, exit: Exit) {
        let mut inner = locked(&self.inner);
        inner.exit = Some(exit.clone());
        let _kept = inner.send(Out::MainExit(exit));
    }

    /// Waits for the acknowledgement.
    pub(crate) async fn exit_acknowledged(&self) {
        // The sender lives in `self`.
        let mut acknowledged = self.acknowledged.subscribe();
        let _known = acknowledged.wait_for(|done| *done).await;
    }

    /// Waits until there is no link.
    pub(crate) async fn unlinked(&self) {
        // The sender lives in `self`.
        let mut linked = self.linked.subscribe();
        let _known = linked.wait_for(|there| !there).await;
    }

    /// A log line for people; never waits, is kept while there is no link, dropped and counted beyond its bound.
    pub(crate) fn log(&self, level: &str, target: &str, text: String, fields: &[(&str, String)]) {
        let line = LogLine {
            time: Some(clock::stamp()),
            level: level.to_owned(),
            target: target.to_owned(),
            message: text,
            fields: fields
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect::<BTreeMap<_, _>>(),
        };
        let mut inner = locked(&self.inner);
        if inner.dropped > 0 {
            let mut note = line.clone();
            note.message = format!("{} log lines were dropped", inner.dropped);
            note.fields.clear();
            if inner.send(Out::Log(note)).is_some() {
                inner.dropped = 0;
            }
        }
        if inner.link.is_some() {
            if inner.send(Out::Log(line)).is_none() {
                inner.dropped += 1;
            }
        } else if inner.backlog.len() < BACKLOG {
            inner.backlog.push_back(line);
        } else {
            inner.dropped += 1;
        }
    }
}

impl Inner {
    fn question(&mut self) -> Option<u64> {
        if self.egress.len() + self.names.len() >= MAX_QUESTIONS {
            return None;
        }
        self.questions += 1;
        Some(self.questions)
    }

    fn send(&self, out: Out) -> Option<()> {
        self.link.as_ref()?.1.try_send(message(out)).ok()
    }
}

#[cfg(test)]
mod tests;
