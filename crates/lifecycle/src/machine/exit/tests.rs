//! The whole table: who ended it, and what that is called.

use std::time::Duration;

use openshell_core::{ExitCause, Reason, Timestamp};

use super::{Facts, Supervisor, classify};
use crate::driver::EngineExit;
use crate::machine::MainEnd;
use crate::restart::Cause;
use crate::time::after;

/// What is known: main's report, the engine's word, whether anybody watched, the other half.
#[derive(Clone, Copy)]
struct Known {
    report: Option<(i32, Told)>,
    engine: Option<(i32, Oom)>,
    unwatched: bool,
    supervisor: Supervisor,
}

#[derive(Clone, Copy, PartialEq)]
enum Told {
    No,
    Yes,
}

#[derive(Clone, Copy, PartialEq)]
enum Oom {
    No,
    Yes,
}

fn reported(code: i32) -> Known {
    Known {
        report: Some((code, Told::No)),
        ..by_engine(code)
    }
}

fn told(code: i32) -> Known {
    Known {
        report: Some((code, Told::Yes)),
        ..by_engine(code)
    }
}

const fn by_engine(code: i32) -> Known {
    Known {
        report: None,
        engine: Some((code, Oom::No)),
        unwatched: false,
        supervisor: Supervisor::Alive,
    }
}

const fn unseen(code: i32, supervisor: Supervisor) -> Known {
    Known {
        unwatched: true,
        supervisor,
        ..by_engine(code)
    }
}

/// Its name, what is known, and what is made of it.
type Row = (&'static str, Known, Cause, Reason, Option<(ExitCause, i32)>);

const FAILED: Cause = Cause::Main { success: false };
const DONE: Cause = Cause::Main { success: true };

#[test]
fn an_end_is_named_by_who_ended_it_and_never_by_its_code_alone() {
    use ExitCause as By;
    use Reason as R;
    use Supervisor as S;
    let out_of_memory = |known| Known {
        engine: Some((137, Oom::Yes)),
        ..known
    };
    let table: Vec<Row> = vec![
        (
            "main ends with 0",
            reported(0),
            DONE,
            R::MainProcessCompleted,
            Some((By::Main, 0)),
        ),
        (
            "main fails",
            reported(17),
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 17)),
        ),
        (
            "main chooses 143",
            reported(143),
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 143)),
        ),
        (
            "main chooses 137",
            reported(137),
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 137)),
        ),
        (
            "main chooses 255",
            reported(255),
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 255)),
        ),
        (
            "memory, reported",
            out_of_memory(reported(137)),
            FAILED,
            R::OutOfMemory,
            Some((By::OutOfMemory, 137)),
        ),
        (
            "memory, all at once",
            out_of_memory(by_engine(137)),
            FAILED,
            R::OutOfMemory,
            Some((By::OutOfMemory, 137)),
        ),
        (
            "a child ran out of memory, main ended by itself",
            Known {
                engine: Some((3, Oom::Yes)),
                ..reported(3)
            },
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 3)),
        ),
        (
            "docker kill",
            by_engine(137),
            FAILED,
            R::ContainerExited,
            Some((By::Unknown, 137)),
        ),
        (
            "docker kill -s TERM, unheard",
            by_engine(143),
            FAILED,
            R::ContainerExited,
            Some((By::Unknown, 143)),
        ),
        (
            "docker stop",
            told(143),
            FAILED,
            R::ContainerStopped,
            Some((By::Unknown, 143)),
        ),
        (
            "docker stop of a main that ends with 0",
            told(0),
            FAILED,
            R::ContainerStopped,
            Some((By::Unknown, 0)),
        ),
        (
            "the engine restarts",
            Known {
                unwatched: true,
                ..told(143)
            },
            Cause::Infrastructure,
            R::ContainerRuntimeRestart,
            Some((By::Infrastructure, 143)),
        ),
        (
            "unreported 0, watched",
            by_engine(0),
            DONE,
            R::MainProcessCompleted,
            Some((By::Main, 0)),
        ),
        (
            "unreported 17, watched",
            by_engine(17),
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 17)),
        ),
        (
            "unseen 0, both at once",
            unseen(0, S::EndedTogether),
            Cause::Infrastructure,
            R::ContainerRuntimeRestart,
            Some((By::Infrastructure, 0)),
        ),
        (
            "unseen 0, nothing else known",
            unseen(0, S::Unknown),
            Cause::Infrastructure,
            R::ContainerRuntimeRestart,
            Some((By::Infrastructure, 0)),
        ),
        (
            "unseen 0, outlived",
            unseen(0, S::EndedAfter),
            DONE,
            R::MainProcessCompleted,
            Some((By::Main, 0)),
        ),
        (
            "unseen 0, the supervisor lives",
            unseen(0, S::Alive),
            DONE,
            R::MainProcessCompleted,
            Some((By::Main, 0)),
        ),
        (
            "unseen 255",
            unseen(255, S::EndedTogether),
            Cause::Infrastructure,
            R::ContainerRuntimeRestart,
            Some((By::Infrastructure, 255)),
        ),
        (
            "unseen 137",
            unseen(137, S::EndedTogether),
            Cause::Infrastructure,
            R::ContainerRuntimeRestart,
            Some((By::Infrastructure, 137)),
        ),
        (
            "unseen 17",
            unseen(17, S::EndedTogether),
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 17)),
        ),
        (
            "unseen, the supervisor first",
            unseen(137, S::EndedBefore),
            Cause::SupervisorLost,
            R::ControlSupervisorExited,
            Some((By::Contained, 137)),
        ),
        (
            "the supervisor gave up",
            unseen(143, S::GaveUp),
            Cause::Infrastructure,
            R::GatewayUnreachable,
            Some((By::Contained, 143)),
        ),
        (
            "the supervisor gave up, and main chose its code",
            unseen(3, S::GaveUp),
            Cause::Infrastructure,
            R::GatewayUnreachable,
            Some((By::Contained, 3)),
        ),
        (
            "main had ended before the supervisor gave up",
            unseen(3, S::EndedAfter),
            FAILED,
            R::MainProcessFailed,
            Some((By::Main, 3)),
        ),
        (
            "nothing says how",
            Known {
                engine: None,
                ..unseen(0, S::Unknown)
            },
            Cause::Infrastructure,
            R::ContainerExited,
            None,
        ),
    ];
    for (name, known, cause, reason, exit) in table {
        let end_of = |(code, told)| MainEnd {
            code,
            at: Timestamp::UNIX_EPOCH,
            error: String::new(),
            told: told == Told::Yes,
        };
        let exit_of = |(code, oom)| EngineExit {
            code,
            oom_killed: oom == Oom::Yes,
            finished_at: Timestamp::UNIX_EPOCH,
        };
        let (report, engine) = (known.report.map(end_of), known.engine.map(exit_of));
        let end = classify(Facts {
            report: report.as_ref(),
            engine: engine.as_ref(),
            unwatched: known.unwatched,
            supervisor: known.supervisor,
        });
        assert_eq!((end.cause, end.reason), (cause, reason), "{name}");
        assert_eq!(end.exit.map(|(by, code, _)| (by, code)), exit, "{name}");
        assert!(!end.message.is_empty(), "{name}");
    }
}

#[test]
fn two_ends_are_compared_by_time_and_by_whether_the_supervisor_was_told() {
    let exit = |code, second| EngineExit {
        code,
        oom_killed: false,
        finished_at: after(Timestamp::UNIX_EPOCH, Duration::from_secs(second)),
    };
    for (supervisor, workload, expected) in [
        ((137, 10), 10, Supervisor::EndedTogether),
        ((137, 10), 12, Supervisor::EndedBefore),
        ((1, 10), 12, Supervisor::EndedBefore),
        ((0, 10), 20, Supervisor::EndedTogether),
        ((143, 10), 20, Supervisor::EndedTogether),
        ((137, 12), 10, Supervisor::EndedAfter),
        ((0, 12), 10, Supervisor::EndedAfter),
        ((75, 12), 10, Supervisor::GaveUp),
        ((75, 10), 40, Supervisor::GaveUp),
        ((75, 16), 10, Supervisor::EndedAfter),
    ] {
        let (code, at) = supervisor;
        assert_eq!(
            Supervisor::compare(&exit(code, at), &exit(137, workload)),
            expected,
            "{supervisor:?} {workload}"
        );
    }
}

#[test]
fn a_code_above_128_is_told_with_its_signal() {
    let message = |code| {
        let told = end_of(code);
        classify(Facts {
            report: Some(&told),
            engine: None,
            unwatched: false,
            supervisor: Supervisor::Alive,
        })
        .message
    };
    for (code, expected) in [
        (3, "the main process ended with 3"),
        (128, "the main process ended with 128"),
        (129, "the main process ended with 129 (signal 1)"),
        (192, "the main process ended with 192 (signal 64)"),
        (193, "the main process ended with 193"),
    ] {
        assert_eq!(message(code), expected);
    }
}

fn end_of(code: i32) -> MainEnd {
    MainEnd {
        code,
        at: Timestamp::UNIX_EPOCH,
        error: String::new(),
        told: false,
    }
}
