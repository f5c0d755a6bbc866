//! One supervisor's life: all its parts, polled together.

use openshell_core::bootstrap::GATEWAY_UNREACHABLE_EXIT;
use tokio::net::UnixListener;

use crate::settings::{Settings, SettingsError};
use crate::state::Run;
use crate::{link, reconcile, session};

/// How a supervisor ended. Its exit code says it to whoever inspects the container.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// Told to by a signal.
    Terminated,
    /// The gateway ended the run.
    Stopped,
    /// The run cannot be: the link is lost or refused, or enforcement is missing.
    Failed,
    /// The gateway was away for too long: fail closed.
    GatewayUnreachable,
    /// The same, and main had ended by itself before: the run was over.
    Unreported,
}

impl Outcome {
    /// 0 when it was told to end, 70 after a failure, 75 when it has ended the run for want of a gateway, 76 when the
    /// run was over then.
    pub const fn exit_code(self) -> u8 {
        match self {
            Self::Terminated | Self::Stopped => 0,
            Self::Failed => 70,
            Self::GatewayUnreachable => GATEWAY_UNREACHABLE_EXIT,
            Self::Unreported => 76,
        }
    }
}

/// Supervises one run of one sandbox until it is over or `shutdown` is ready. Dropping it ends everything.
pub async fn run(
    settings: Settings,
    shutdown: impl Future<Output = ()>,
) -> Result<Outcome, SettingsError> {
    let socket = settings.link_socket.clone();
    let listener = link::listen(&socket)?;
    let run = Run::new(settings);
    tracing::info!(
        sandbox = %run.bootstrap.sandbox_id,
        name = run.bootstrap.sandbox_name,
        generation = %run.bootstrap.generation,
        instance = %run.instance,
        "supervising"
    );
    let outcome = supervise(&run, &listener, shutdown).await;
    tracing::info!(?outcome, "ending");
    // Nobody dials a dead socket; the volume goes with the sandbox anyway.
    drop(std::fs::remove_file(&socket));
    Ok(outcome)
}

async fn supervise(
    run: &Run,
    listener: &UnixListener,
    shutdown: impl Future<Output = ()>,
) -> Outcome {
    tokio::select! {
        biased;
        () = shutdown => Outcome::Terminated,
        outcome = reconcile::stop(run) => outcome,
        outcome = session::run(run) => outcome,
        never = link::serve(listener, run) => match never {},
        never = reconcile::start_main(run) => match never {},
        never = reconcile::freeze(run) => match never {},
    }
}
