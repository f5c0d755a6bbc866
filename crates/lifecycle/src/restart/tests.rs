//! The table of lifecycle.md, row by row, and the back-off.

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn policy(restart: RestartPolicy) -> Policy {
    Policy {
        restart,
        restore: RestoreMode::Intent,
    }
}

fn kind(decision: Decision) -> &'static str {
    match decision {
        Decision::Complete => "complete",
        Decision::Fail => "fail",
        Decision::Restart { .. } => "restart",
    }
}

#[test]
fn l8_every_cause_under_every_policy_leads_where_the_table_says() {
    let table = [
        (
            Cause::Main { success: true },
            ["complete", "complete", "restart"],
        ),
        (
            Cause::Main { success: false },
            ["fail", "restart", "restart"],
        ),
        (Cause::SupervisorLost, ["fail", "restart", "restart"]),
        (Cause::Infrastructure, ["restart", "restart", "restart"]),
        (Cause::Parked, ["restart", "restart", "restart"]),
        (
            Cause::StartFailed { permanent: false },
            ["fail", "restart", "restart"],
        ),
        (
            Cause::StartFailed { permanent: true },
            ["fail", "fail", "fail"],
        ),
        (Cause::RuntimeMissing, ["fail", "restart", "restart"]),
    ];
    let policies = [
        RestartPolicy::Never,
        RestartPolicy::OnFailure,
        RestartPolicy::Always,
    ];
    for (cause, expected) in table {
        for (restart, expected) in policies.into_iter().zip(expected) {
            let got = decide(policy(restart), cause, History::default(), NOW);
            assert_eq!(kind(got), expected, "{cause:?} under {restart:?}");
        }
    }
}

#[test]
fn an_infrastructure_loss_is_relaunched_only_as_configured() {
    for (restore, restart, expected) in [
        (RestoreMode::Policy, RestartPolicy::Never, "fail"),
        (RestoreMode::Policy, RestartPolicy::OnFailure, "restart"),
        (RestoreMode::None, RestartPolicy::Always, "fail"),
    ] {
        for cause in [Cause::Infrastructure, Cause::Parked] {
            let got = decide(Policy { restart, restore }, cause, History::default(), NOW);
            assert_eq!(kind(got), expected, "{cause:?} {restore:?} {restart:?}");
        }
    }
}

#[test]
fn the_first_restart_is_at_once_then_one_second_doubles_to_three_minutes() {
    let seconds: Vec<u64> = (0..12).map(|n| delay(n).as_secs()).collect();
    assert_eq!(seconds, [0, 1, 2, 4, 8, 16, 32, 64, 128, 180, 180, 180]);
    assert_eq!(delay(u32::MAX), LONGEST_DELAY);
}

#[test]
fn a_run_that_lived_ten_seconds_ends_the_crash_loop() {
    let loop_of = |lived| {
        decide(
            policy(RestartPolicy::Always),
            Cause::Main { success: false },
            History {
                count: 5,
                lived: Some(lived),
            },
            NOW,
        )
    };
    assert_eq!(
        loop_of(Duration::from_secs(10)),
        Decision::Restart { at: NOW, count: 1 }
    );
    assert_eq!(
        loop_of(Duration::from_millis(9_999)),
        Decision::Restart {
            at: after(NOW, Duration::from_secs(16)),
            count: 6
        }
    );
}

#[test]
fn a_relaunch_of_a_run_that_lived_is_no_crash_loop() {
    let history = History {
        count: 3,
        lived: Some(Duration::from_secs(60)),
    };
    assert_eq!(
        decide(
            policy(RestartPolicy::Never),
            Cause::Infrastructure,
            history,
            NOW
        ),
        Decision::Restart { at: NOW, count: 0 }
    );
}

#[test]
fn a_stop_together_with_the_gateway_is_no_restart_of_a_crash_loop() {
    for count in [0, 5] {
        let history = History { count, lived: None };
        assert_eq!(
            decide(policy(RestartPolicy::Never), Cause::Parked, history, NOW),
            Decision::Restart { at: NOW, count }
        );
    }
}
