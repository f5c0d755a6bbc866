//! What the sandbox may reach. The decision is pure and stands alone in [`decide`] and [`resolve`]: without network
//! policies everything is denied, and each denial leaves a line that says what was missing.

mod denials;

use openshell_proto::link::{EgressDecision, EgressRequest, LogLine, NameAnswer, NameQuestion};
use tokio::time::Instant;

use self::denials::{Denial, Denials};

/// The time for which a sandbox may remember that a name does not exist.
const NEGATIVE_TTL_SECONDS: u32 = 5;

/// What was decided about a connection.
#[derive(Debug, PartialEq, Eq)]
enum Decision {
    /// Refused; says which rule is missing.
    Denied(String),
}

/// Decides about a connection.
fn decide(request: &EgressRequest) -> Decision {
    Decision::Denied(format!("no network policy allows {}", destination(request)))
}

/// Decides about a name: addresses that may be given for it; none means that it does not exist here.
fn resolve(_question: &NameQuestion) -> Vec<String> {
    Vec::new()
}

/// The decisions of this run, with the log that they leave.
#[derive(Default)]
pub(crate) struct Egress {
    denials: Denials,
}

impl Egress {
    /// Answers a connection; with a line for the log, if it is time for one.
    pub(crate) fn connection(
        &mut self,
        request: &EgressRequest,
        now: Instant,
    ) -> (EgressDecision, Option<LogLine>) {
        let Decision::Denied(reason) = decide(request);
        let line = self.denials.record(
            Denial {
                activity: "OPEN",
                binary: request.binary.clone(),
                pid: Some(request.pid),
                destination: destination(request),
                why: "no network policy allows it",
                reason: reason.clone(),
            },
            now,
        );
        let decision = EgressDecision {
            id: request.id,
            allowed: false,
            reason,
        };
        (decision, line)
    }

    /// Answers a name; with a line for the log, if it is time for one.
    pub(crate) fn name(
        &mut self,
        question: &NameQuestion,
        now: Instant,
    ) -> (NameAnswer, Option<LogLine>) {
        let addresses = resolve(question);
        let line = if addresses.is_empty() {
            self.denials.record(
                Denial {
                    activity: "RESOLVE",
                    binary: String::new(),
                    pid: None,
                    destination: question.name.trim_end_matches('.').to_owned(),
                    why: "no network policy names it",
                    reason: format!("no network policy names {}", question.name),
                },
                now,
            )
        } else {
            None
        };
        let answer = NameAnswer {
            id: question.id,
            addresses,
            ttl_seconds: NEGATIVE_TTL_SECONDS,
        };
        (answer, line)
    }

    /// When [`flush`](Self::flush) has something to say, if ever.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.denials.due()
    }

    /// Lines about what was repeated meanwhile.
    pub(crate) fn flush(&mut self, now: Instant) -> Vec<LogLine> {
        self.denials.flush(now)
    }
}

fn destination(request: &EgressRequest) -> String {
    if request.address.contains(':') {
        format!("[{}]:{}", request.address, request.port)
    } else {
        format!("{}:{}", request.address, request.port)
    }
}

#[cfg(test)]
mod tests;
