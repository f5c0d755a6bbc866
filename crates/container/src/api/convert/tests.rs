//! Answers of the engine, as it really gives them.

use super::super::dialect::Plain;
use super::*;

fn inspect(state: &str) -> ContainerFacts {
    let text = format!(
        r#"{{"Id":"abc","Name":"/n","Image":"sha256:1","State":{state},"Config":{{"User":"1000:1000","Labels":{{"a":"b"}}}}}}"#
    );
    container(serde_json::from_str(&text).unwrap())
}

#[test]
fn the_year_1_means_never() {
    let created = inspect(
        r#"{"Status":"created","Running":false,"ExitCode":0,"StartedAt":"0001-01-01T00:00:00Z","FinishedAt":"0001-01-01T00:00:00Z"}"#,
    );
    assert_eq!(created.status, ContainerStatus::Created);
    assert_eq!((created.started_at, created.finished_at), (None, None));
    assert_eq!(
        (created.name.as_str(), created.user.as_str()),
        ("n", "1000:1000")
    );
}

#[test]
fn a_restarted_container_runs_although_its_last_end_is_known() {
    let running = inspect(
        r#"{"Status":"running","Running":true,"OOMKilled":false,"ExitCode":0,"StartedAt":"2026-01-02T03:04:05.123456789Z","FinishedAt":"2026-01-02T03:04:04Z"}"#,
    );
    assert_eq!(running.status, ContainerStatus::Running);
    assert_eq!(running.started_at.unwrap().subsec_nanosecond(), 123_456_789);
    assert_eq!(
        inspect(r#"{"Status":"paused"}"#).status,
        ContainerStatus::Running
    );
    assert_eq!(
        inspect(r#"{"Status":"dead"}"#).status,
        ContainerStatus::Exited
    );
    for made in ["created", "configured", "initialized"] {
        let facts = inspect(&format!(r#"{{"Status":"{made}"}}"#));
        assert_eq!(facts.status, ContainerStatus::Created, "{made}");
    }
    for moving in [
        "removing",
        "restarting",
        "stopping",
        "stopped",
        "unheard-of",
    ] {
        let facts = inspect(&format!(r#"{{"Status":"{moving}"}}"#));
        assert_eq!(facts.status, ContainerStatus::InTransition, "{moving}");
    }
}

#[test]
fn an_event_keeps_its_identity_and_only_those_that_matter_are_read() {
    let read = |action: &str| {
        let text = format!(
            r#"{{"Type":"container","Action":"{action}","Actor":{{"ID":"abc","Attributes":{{"exitCode":"137","x":"y"}}}},"timeNano":1700000000123456789}}"#
        );
        event(serde_json::from_str(&text).unwrap())
    };
    let died = read("die").unwrap();
    assert_eq!(died.kind, EngineEventKind::Died { code: 137 });
    assert_eq!(
        (died.container.0.as_str(), died.labels["x"].as_str()),
        ("abc", "y")
    );
    assert_eq!(died.time.as_nanosecond(), 1_700_000_000_123_456_789);
    for removed in ["destroy", "remove"] {
        assert_eq!(read(removed).unwrap().kind, EngineEventKind::Removed);
    }
    assert_eq!(
        read("died").unwrap().kind,
        EngineEventKind::Died { code: 137 }
    );
    assert_eq!(read("oom").unwrap().kind, EngineEventKind::OutOfMemory);
    for other in ["exec_die", "kill", "stop", "create", "exec_start: sh"] {
        assert_eq!(read(other), None, "{other}");
    }
}

#[test]
fn another_storage_is_another_engine_l18() {
    let id = |root: &str| {
        let text = format!(
            r#"{{"ID":"X","Driver":"overlay2","DockerRootDir":"{root}","Architecture":"x86_64","OSType":"linux","SystemTime":"2026-01-02T03:04:05.5Z","MemoryLimit":true,"CpuCfsQuota":true}}"#
        );
        facts(
            &Plain,
            serde_json::from_str(&text).unwrap(),
            "1.41".to_owned(),
        )
        .unwrap()
    };
    assert_eq!(id("/a").architecture, "amd64");
    assert!(id("/a").limits_supported);
    assert_eq!(id("/a").id, id("/a").id);
    assert_ne!(id("/a").id, id("/b").id);
}
