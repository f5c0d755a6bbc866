//! `sandbox wait`.

use std::ops::ControlFlow;

use clap::{Args, ValueEnum};

use crate::connect::Gateway;
use crate::error::{CliError, CliResult};
use crate::exit::Exit;
use crate::global::GlobalArgs;
use crate::output::out;
use crate::view::SandboxView;
use crate::wait::{Seen, Watch};

use super::args::NameArg;

/// `openshell sandbox wait`
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  openshell sandbox wait demo --for ready\n  openshell sandbox wait demo --for completed --timeout 60\n  \
    openshell sandbox wait demo --for deleted\n\nThe exit code is 124 if it timed out, 3 if the sandbox does not exist."
)]
pub(crate) struct WaitForArgs {
    #[command(flatten)]
    name: NameArg,
    /// What to wait for
    #[arg(
        long = "for",
        value_enum,
        ignore_case = true,
        value_name = "PHASE",
        default_value = "ready"
    )]
    target: Target,
    /// How many seconds to wait
    #[arg(
        long,
        value_name = "SECONDS",
        default_value_t = 300,
        env = "OPENSHELL_LIFECYCLE_TIMEOUT",
        hide_env = true
    )]
    timeout: u32,
}

/// A phase, or absence.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
enum Target {
    Ready,
    Stopped,
    Completed,
    Error,
    Starting,
    Stopping,
    Provisioning,
    Unknown,
    /// The main process has ended: Completed, Error or Stopped
    Ended,
    Deleted,
}

impl Target {
    fn is_met(self, phase: &str) -> bool {
        match self {
            Self::Ended => matches!(phase, "Completed" | "Error" | "Stopped"),
            Self::Deleted => false,
            other => phase.eq_ignore_ascii_case(&format!("{other:?}")),
        }
    }
}

impl WaitForArgs {
    /// Waits.
    pub(crate) async fn run(self, global: &GlobalArgs) -> CliResult<Exit> {
        let name = &self.name.name;
        let gateway = Gateway::connect(global).await?;
        let watch = Watch {
            gateway: &gateway,
            name,
            id: "",
            bound: std::time::Duration::from_secs(self.timeout.into()),
            events: false,
        };
        let mut id = String::new();
        let met = watch.until(|seen| match seen {
            Seen::Record(sandbox) => {
                let view = SandboxView::new(sandbox, None);
                // Another one of the same name: the one that was waited for is gone.
                if !id.is_empty() && id != view.id {
                    return ControlFlow::Break(self.target == Target::Deleted);
                }
                id = view.id;
                if self.target.is_met(view.phase) {
                    ControlFlow::Break(true)
                } else {
                    ControlFlow::Continue(())
                }
            }
            Seen::Gone => ControlFlow::Break(self.target == Target::Deleted),
            Seen::Event(_) => ControlFlow::Continue(()),
        });
        if met.await? {
            out(name);
            return Ok(Exit::Done);
        }
        Err(
            CliError::new(Exit::NotFound, format!("sandbox {name:?} does not exist"))
                .hint("`openshell sandbox list` shows what there is"),
        )
    }
}

#[cfg(test)]
mod tests {
    //! Which phases meet which target.
    use super::Target;

    #[test]
    fn every_target_is_met_by_its_own_phase_only() {
        assert!(Target::Ready.is_met("Ready"));
        assert!(!Target::Ready.is_met("Starting"));
        assert!(!Target::Deleted.is_met("Deleting"));
        for phase in ["Completed", "Error", "Stopped"] {
            assert!(Target::Ended.is_met(phase), "{phase}");
        }
        assert!(!Target::Ended.is_met("Ready"));
    }
}
