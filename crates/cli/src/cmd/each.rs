//! One verb on several names: goes on after a failure, and the first one decides the exit code.

use openshell_proto::api::DeletionOutcome;
use tonic::Status;

use crate::connect::Gateway;
use crate::exit::Exit;
use crate::output::{out, say};

/// Deletes each; what was absent already is said, and is no failure.
pub(super) async fn delete_each(
    gateway: &Gateway,
    noun: &str,
    names: Vec<String>,
    delete: impl AsyncFn(String) -> Result<DeletionOutcome, Status>,
) -> Exit {
    let mut exit = Exit::Done;
    for name in names {
        match delete(name.clone()).await {
            Ok(outcome) => {
                if outcome == DeletionOutcome::AlreadyAbsent {
                    say(format_args!("{noun} {name:?} did not exist"));
                }
                out(&name);
            }
            Err(status) => {
                let error =
                    gateway.failed(format!("{noun} {name:?} could not be deleted"), &status);
                say(&error);
                if exit == Exit::Done {
                    exit = error.exit;
                }
            }
        }
    }
    exit
}
