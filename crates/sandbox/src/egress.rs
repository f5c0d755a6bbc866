//! What becomes of a call that would leave the sandbox: the supervisor is asked, and logs what it decides; what
//! fails before it is asked is logged here.

use std::sync::Arc;

use openshell_proto::link::EgressRequest;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::broker::{Attempt, MAX_PENDING, Question};
use crate::process::launcher::PROOF;
use crate::runtime::Runtime;

/// Answers the broker's questions, each by itself, for the life of the runtime.
pub(crate) async fn answer(runtime: Arc<Runtime>, mut questions: mpsc::Receiver<Question>) {
    let mut open = JoinSet::new();
    while let Some(question) = questions.recv().await {
        while open.try_join_next().is_some() {}
        // Beyond the bound a question is refused, by being dropped.
        if open.len() < MAX_PENDING {
            open.spawn(decide(Arc::clone(&runtime), question));
        }
    }
}

async fn decide(runtime: Arc<Runtime>, question: Question) {
    if is_proof(&question) {
        return question.refuse(libc::ECONNREFUSED);
    }
    if question.attempt != Attempt::Connect {
        log(&runtime, &question, "datagrams do not leave a sandbox");
        return question.refuse(libc::ENETUNREACH);
    }
    let request = EgressRequest {
        id: 0,
        pid: question.pid,
        binary: question.binary.clone(),
        ancestors: question.ancestors.clone(),
        transport: "tcp".to_owned(),
        address: question.target.ip().to_canonical().to_string(),
        port: question.target.port().into(),
    };
    match runtime.control.ask_egress(request).await {
        // Whoever decides says so in the log; what follows nobody else knows.
        Some(decision) if !decision.allowed => {}
        Some(_) => log(
            &runtime,
            &question,
            "this version relays no connections yet",
        ),
        None => log(&runtime, &question, "the supervisor did not answer"),
    }
    question.refuse(libc::ECONNREFUSED);
}

/// The launcher's own proof asks nobody: no supervisor has been answered yet when it is made.
fn is_proof(question: &Question) -> bool {
    question.target == PROOF.into()
        && std::fs::read_link("/proc/self/exe")
            .is_ok_and(|own| own.as_os_str() == &*question.binary)
}

fn log(runtime: &Runtime, question: &Question, why: &str) {
    // Resolvers aim at every address that they sort, and send nothing.
    let (level, transport) = match question.attempt {
        Attempt::Connect => ("warn", "tcp"),
        Attempt::Aim => ("debug", "udp"),
        Attempt::Send => ("warn", "udp"),
    };
    let destination = question.target.to_string();
    let text = format!(
        "denied: {} to {destination} ({transport}): {why}",
        question.binary
    );
    let fields = [
        ("binary", question.binary.clone()),
        ("ancestors", question.ancestors.join(" ")),
        ("destination", destination),
        ("transport", transport.to_owned()),
        ("reason", why.to_owned()),
        ("pid", question.pid.to_string()),
        ("verdict", "denied".to_owned()),
    ];
    runtime.control.log(level, "egress", text, &fields);
}
