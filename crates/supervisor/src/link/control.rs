//! The control stream of an attached link: egress questions, the sandbox's log lines, the main process's end.

use openshell_proto::link::{
    ControlFromSandbox, ControlFromSupervisor, ExitAck, control_from_sandbox as from,
    control_from_supervisor as to,
};
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;

use super::accept;
use super::connection::Link;
use crate::egress::Egress;
use crate::state::Run;

/// Answers that wait for the sandbox to read them.
const ANSWERS: usize = 32;

/// Serves it until it ends; says why it ended. Other connections are refused meanwhile.
pub(super) async fn serve(
    link: &Link,
    listener: &UnixListener,
    run: &Run,
    egress: &mut Egress,
) -> String {
    let (answers, outbound) = mpsc::channel(ANSWERS);
    let mut client = link.control();
    let opened = client.control(ReceiverStream::new(outbound));
    let mut inbound = match timeout(run.timings.attach, opened).await {
        Ok(Ok(inbound)) => inbound.into_inner(),
        Ok(Err(status)) => return status.message().to_owned(),
        Err(_) => return "the control stream did not open".to_owned(),
    };
    tokio::select! {
        why = converse(&mut inbound, &answers, run, egress) => why,
        never = refuse_others(listener, run) => match never {},
    }
}

async fn refuse_others(listener: &UnixListener, run: &Run) -> std::convert::Infallible {
    loop {
        drop(accept(listener, run).await);
        let message = "refused a second connection on the link: one is attached".to_owned();
        run.say(tracing::Level::WARN, message);
    }
}

async fn converse(
    inbound: &mut Streaming<ControlFromSandbox>,
    answers: &mpsc::Sender<ControlFromSupervisor>,
    run: &Run,
    egress: &mut Egress,
) -> String {
    loop {
        let due = egress.due();
        let message = tokio::select! {
            biased;
            message = inbound.message() => message,
            () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                for line in egress.flush(Instant::now()) {
                    log(run, line);
                }
                continue;
            }
        };
        let message = match message {
            Ok(Some(message)) => message.message,
            Ok(None) => return "closed by the sandbox".to_owned(),
            Err(status) => return status.message().to_owned(),
        };
        let Some(message) = message else { continue };
        if let Some(answer) = heard(message, run, egress) {
            let answer = ControlFromSupervisor {
                message: Some(answer),
            };
            if answers.send(answer).await.is_err() {
                return "closed by the sandbox".to_owned();
            }
        }
    }
}

fn heard(message: from::Message, run: &Run, egress: &mut Egress) -> Option<to::Message> {
    match message {
        from::Message::Egress(request) => {
            let (decision, line) = egress.connection(&request, Instant::now());
            if let Some(line) = line {
                log(run, line);
            }
            Some(to::Message::Egress(decision))
        }
        from::Message::Name(question) => {
            let (answer, line) = egress.name(&question, Instant::now());
            if let Some(line) = line {
                log(run, line);
            }
            Some(to::Message::Name(answer))
        }
        from::Message::MainExit(exit) => {
            tracing::info!(code = exit.code, "the main process has ended");
            run.main.send_modify(|main| {
                main.exit.get_or_insert(exit);
            });
            // From here on the report is ours to keep; the sandbox may go.
            Some(to::Message::ExitAck(ExitAck {}))
        }
        from::Message::Log(line) => {
            run.logs.push(line);
            None
        }
    }
}

fn log(run: &Run, line: openshell_proto::link::LogLine) {
    tracing::info!(target: "egress", "{}", line.message);
    run.logs.push(line);
}
