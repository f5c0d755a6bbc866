//! The fields that scripts rely on, and what people read.

use super::*;
use openshell_proto::datamodel::ObjectMeta;

pub(crate) fn sandbox(name: &str, phase: api::SandboxPhase) -> api::Sandbox {
    let time = |seconds| Some(prost_types::Timestamp { seconds, nanos: 0 });
    api::Sandbox {
        metadata: Some(ObjectMeta {
            id: "0199-id".into(),
            name: name.into(),
            workspace: "default".into(),
            labels: [("team".to_owned(), "a".to_owned())].into(),
            created_time: time(1_760_000_000),
            ..Default::default()
        }),
        spec: Some(api::SandboxSpec {
            template: Some(api::SandboxTemplate {
                image: "busybox:1".into(),
                ..Default::default()
            }),
            command: vec!["sh".into(), "-c".into(), "exit 17".into()],
            restart_policy: api::SandboxRestartPolicy::OnFailure as i32,
            ..Default::default()
        }),
        status: Some(api::SandboxStatus {
            phase: phase as i32,
            exit_code: Some(17),
            restart_count: 2,
            next_restart_time: time(1_760_000_060),
            conditions: vec![api::SandboxCondition {
                r#type: "Ready".into(),
                status: "False".into(),
                reason: "MainProcessFailed".into(),
                message: "main ended with 17".into(),
                transition_time: time(1_760_000_030),
            }],
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn life() -> plus::Life {
    plus::Life {
        generation: 3,
        last_exit: Some(plus::LastExit {
            generation: 2,
            code: 17,
            cause: "main".into(),
            time: Some(prost_types::Timestamp {
                seconds: 1_760_000_030,
                nanos: 0,
            }),
        }),
        ..Default::default()
    }
}

#[test]
fn json_has_the_fields_that_scripts_rely_on() {
    let view = SandboxView::new(&sandbox("a", api::SandboxPhase::Error), Some(&life()));
    insta::assert_json_snapshot!(view, @r#"
    {
      "name": "a",
      "id": "0199-id",
      "workspace": "default",
      "phase": "Error",
      "reason": "MainProcessFailed",
      "message": "main ended with 17",
      "restart_policy": "on-failure",
      "restart_count": 2,
      "next_restart_time": "2025-10-09T08:54:20.000Z",
      "exit_code": 17,
      "last_exit": {
        "generation": 2,
        "code": 17,
        "cause": "main",
        "time": "2025-10-09T08:53:50.000Z"
      },
      "hold": null,
      "generation": 3,
      "image": "busybox:1",
      "conditions": [
        {
          "type": "Ready",
          "status": "False",
          "reason": "MainProcessFailed",
          "message": "main ended with 17",
          "transition_time": "2025-10-09T08:53:50.000Z"
        }
      ],
      "labels": {
        "team": "a"
      },
      "created": "2025-10-09T08:53:20.000Z"
    }
    "#);
}

#[test]
fn people_read_the_reason_the_message_and_the_way_out() {
    let view = SandboxView::new(&sandbox("a", api::SandboxPhase::Error), Some(&life()));
    let now = Timestamp::from_second(1_760_000_090).unwrap();
    insta::assert_snapshot!(view.details(now), @r"
    Name:            a
    Id:              0199-id
    Workspace:       default
    Phase:           Error
    Reason:          MainProcessFailed
    Message:         main ended with 17
    Next step:       openshell sandbox events a; then openshell sandbox start a
    Image:           busybox:1
    Command:         sh -c exit 17
    Restart policy:  on-failure
    Restarts:        2, next at 2025-10-09T08:54:20.000Z
    Exit code:       17
    Last exit:       17 (main), run 2, at 2025-10-09T08:53:50.000Z
    Generation:      3
    Labels:          team=a
    Created:         2025-10-09T08:53:20.000Z (90s ago)
    ");
    insta::assert_snapshot!(table([&view], now), @r"
    NAME  PHASE  REASON             RESTARTS  AGE  IMAGE
    a     Error  MainProcessFailed  2         90s  busybox:1
    ");
}

#[test]
fn a_held_sandbox_says_by_whom_why_and_that_a_release_is_the_way_out() {
    let held = plus::Life {
        hold: Some(plus::Hold {
            by: "ada".into(),
            reason: "looks odd".into(),
            since: Some(prost_types::Timestamp {
                seconds: 1_760_000_030,
                nanos: 0,
            }),
        }),
        ..life()
    };
    let view = SandboxView::new(&sandbox("a", api::SandboxPhase::Stopped), Some(&held));
    let now = Timestamp::from_second(1_760_000_090).unwrap();
    let details = view.details(now);
    for line in [
        "Held:            by ada since 2025-10-09T08:53:50.000Z: looks odd",
        "Next step:       openshell sandbox release a; then openshell sandbox start a",
    ] {
        assert!(details.contains(line), "{details}");
    }
    let json = serde_json::to_value(&view).unwrap();
    assert_eq!(json["hold"]["reason"], "looks odd");
}
