//! Where a watcher is, as text that only this gateway reads.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
use openshell_core::SandboxId;
use tonic::{Code, Status};

use crate::session::SourcedLine;
use crate::status;

/// How far a watcher has got in each of its three streams.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Place {
    pub(super) version: u64,
    pub(super) log: u64,
    pub(super) event: u64,
}

/// The text form.
pub(super) struct Cursor;

impl Cursor {
    pub(super) fn encode(place: &Place, epoch: &str, sandbox: SandboxId) -> String {
        let Place {
            version,
            log,
            event,
        } = place;
        B64.encode(format!("1 {epoch} {sandbox} {version} {log} {event}"))
    }

    /// OUT_OF_RANGE if it is another process's; INVALID_ARGUMENT if it is none, or another sandbox's.
    pub(super) fn parse(text: &str, epoch: &str, sandbox: SandboxId) -> Result<Place, Status> {
        let invalid = || {
            status::invalid(
                "resume_after_cursor",
                "is not a cursor of this sandbox's stream",
            )
        };
        if text.len() > 512 {
            return Err(invalid());
        }
        let decoded = B64.decode(text).map_err(|_| invalid())?;
        let decoded = String::from_utf8(decoded).map_err(|_| invalid())?;
        let parts: Vec<&str> = decoded.split(' ').collect();
        let ["1", its_epoch, its_sandbox, version, log, event] = parts[..] else {
            return Err(invalid());
        };
        if its_sandbox.parse() != Ok(sandbox) {
            return Err(invalid());
        }
        if its_epoch != epoch {
            return Err(too_old());
        }
        let number = |text: &str| text.parse().map_err(|_| invalid());
        Ok(Place {
            version: number(version)?,
            log: number(log)?,
            event: number(event)?,
        })
    }
}

impl Place {
    /// OUT_OF_RANGE if lines after this place are no longer kept.
    pub(super) fn check_logs(&self, kept: &[SourcedLine]) -> Result<(), Status> {
        match kept.first() {
            Some(first) if first.sequence > self.log + 1 => Err(too_old()),
            _ => Ok(()),
        }
    }
}

/// The stream cannot be continued there.
pub(super) fn too_old() -> Status {
    status::error(
        Code::OutOfRange,
        "CURSOR_TOO_OLD",
        "resume_after_cursor: what followed it is no longer kept; watch again without a cursor",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_names_its_place_its_sandbox_and_its_gateway() {
        let id = SandboxId::random();
        let place = Place {
            version: 3,
            log: 7,
            event: 1,
        };
        let text = Cursor::encode(&place, "e1", id);
        assert_eq!(Cursor::parse(&text, "e1", id).unwrap(), place);
        let code = |r: Result<Place, Status>| r.unwrap_err().code();
        assert_eq!(code(Cursor::parse(&text, "e2", id)), Code::OutOfRange);
        let other = SandboxId::random();
        assert_eq!(
            code(Cursor::parse(&text, "e1", other)),
            Code::InvalidArgument
        );
        for garbage in ["x", "!", &"A".repeat(1000), &B64.encode("1 2 3")] {
            assert_eq!(
                code(Cursor::parse(garbage, "e1", id)),
                Code::InvalidArgument
            );
        }
    }

    #[test]
    fn a_place_before_the_kept_lines_is_out_of_range() {
        let line = |sequence| SourcedLine {
            sequence,
            source: "sandbox",
            line: Default::default(),
        };
        let place = Place {
            log: 4,
            ..Place::default()
        };
        place.check_logs(&[]).unwrap();
        place.check_logs(&[line(5)]).unwrap();
        let e = place.check_logs(&[line(6)]).unwrap_err();
        assert_eq!(e.code(), Code::OutOfRange);
    }
}
