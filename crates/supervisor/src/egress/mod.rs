//! What the sandbox may reach: asks the policy, answers the sandbox, and leaves a line about each denial that says
//! what was missing.

mod denials;

use openshell_policy::{Decision, Destination};
use openshell_proto::link::{EgressDecision, EgressRequest, LogLine, NameAnswer, NameQuestion};
use tokio::time::Instant;

use self::denials::{Denial, Denials};

/// The time for which a sandbox may remember that a name does not exist.
const NEGATIVE_TTL_SECONDS: u32 = 5;

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
        // No socket carries a larger port; what does is nobody's destination.
        let port = u16::try_from(request.port).unwrap_or_default();
        let destination = Destination {
            host: &request.address,
            port,
        };
        let Decision::Denied { why, reason } = openshell_policy::connection(destination);
        let line = self.denials.record(
            Denial {
                activity: "OPEN",
                binary: request.binary.clone(),
                pid: Some(request.pid),
                destination: destination.to_string(),
                why,
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
        let Decision::Denied { why, reason } = openshell_policy::name(&question.name);
        let line = self.denials.record(
            Denial {
                activity: "RESOLVE",
                binary: String::new(),
                pid: None,
                destination: question.name.trim_end_matches('.').to_owned(),
                why,
                reason,
            },
            now,
        );
        let answer = NameAnswer {
            id: question.id,
            addresses: Vec::new(),
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

#[cfg(test)]
mod tests;
