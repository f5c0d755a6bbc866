//! What is told of a sandbox through the public API: its logs, its watches, its journal.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test helpers")]

mod support;

use openshell_proto::api::{self, SandboxPhase, sandbox_stream_event};
use openshell_proto::{link, plus};
use support::{DEADLINE, Gateway};
use tonic::{Code, Status, Streaming};

#[tokio::test]
async fn logs_tell_what_the_supervisor_said() {
    let g = Gateway::start().await;
    let id = g.ready("a").await.metadata.unwrap().id;
    let request = |level: &str, source: &str| api::GetSandboxLogsRequest {
        sandbox: "a".to_owned(),
        min_level: level.to_owned(),
        sources: vec![source.to_owned()],
        ..Default::default()
    };
    let logs = g
        .user()
        .get_sandbox_logs(request("warn", "sandbox"))
        .await
        .unwrap()
        .into_inner();
    assert_eq!(logs.logs.len(), 1);
    assert_eq!(
        (&*logs.logs[0].sandbox_id, &*logs.logs[0].message),
        (&*id, "denied")
    );
    let none = g
        .user()
        .get_sandbox_logs(request("error", "sandbox"))
        .await
        .unwrap();
    assert!(none.into_inner().logs.is_empty());
}

type Watch = Streaming<api::SandboxStreamEvent>;

async fn watch(g: &Gateway, request: api::WatchSandboxRequest) -> Result<Watch, Status> {
    let request = api::WatchSandboxRequest {
        sandbox: "a".to_owned(),
        ..request
    };
    Ok(g.user().watch_sandbox(request).await?.into_inner())
}

async fn next(stream: &mut Watch) -> Option<api::SandboxStreamEvent> {
    let message = tokio::time::timeout(DEADLINE, stream.message()).await;
    message.expect("comes in time").unwrap()
}

#[tokio::test]
async fn a_watch_follows_a_sandbox_to_ready_and_stops_there_if_asked() {
    let g = Gateway::start().await;
    let request = api::CreateSandboxRequest {
        name: "a".to_owned(),
        ..Default::default()
    };
    g.user().create_sandbox(request).await.unwrap();
    let request = api::WatchSandboxRequest {
        follow_status: true,
        stop_on_terminal: true,
        ..Default::default()
    };
    let mut stream = watch(&g, request).await.unwrap();
    let (mut last, mut versions) = (None, Vec::new());
    while let Some(event) = next(&mut stream).await {
        let Some(sandbox_stream_event::Payload::Sandbox(s)) = event.payload else {
            panic!("only status was asked for");
        };
        versions.push(s.metadata.unwrap().resource_version);
        last = Some(s.status.unwrap().phase());
    }
    assert_eq!(last, Some(SandboxPhase::Ready));
    assert!(versions.windows(2).all(|w| w[0] < w[1]), "{versions:?}");
}

#[tokio::test]
async fn a_watch_resumes_after_its_cursor_and_refuses_one_that_it_cannot_honour() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let follow = |cursor: &str| api::WatchSandboxRequest {
        follow_logs: true,
        follow_events: true,
        follow_status: true,
        log_tail_lines: 10,
        event_tail: 100,
        resume_after_cursor: cursor.to_owned(),
        ..Default::default()
    };
    let mut stream = watch(&g, follow("")).await.unwrap();
    let first = next(&mut stream).await.unwrap();
    assert!(matches!(
        first.payload,
        Some(sandbox_stream_event::Payload::Sandbox(_))
    ));
    let log = next(&mut stream).await.unwrap();
    assert!(matches!(
        log.payload,
        Some(sandbox_stream_event::Payload::Log(_))
    ));
    let mut cursor = log.cursor;
    let event = next(&mut stream).await.unwrap();
    let Some(sandbox_stream_event::Payload::Event(event_one)) = event.payload else {
        panic!("{event:?}");
    };
    assert_eq!(event_one.metadata["input"], "command create");
    // After the log line and before the first event: that event comes again, the line and the status do not.
    let mut resumed = watch(&g, follow(&cursor)).await.unwrap();
    let again = next(&mut resumed).await.unwrap();
    assert!(
        matches!(&again.payload, Some(sandbox_stream_event::Payload::Event(e)) if *e == event_one)
    );
    cursor.push('x');
    let e = watch(&g, follow(&cursor)).await.unwrap_err();
    assert_eq!(e.code(), Code::InvalidArgument);
    // So many lines later, what followed the cursor is no longer kept.
    let id = id_of(&g);
    for _ in 0..3000 {
        g.hub.log(id, link::LogLine::default());
    }
    let e = watch(&g, follow(&again.cursor)).await.unwrap_err();
    assert_eq!(e.code(), Code::OutOfRange);
}

fn id_of(g: &Gateway) -> openshell_core::SandboxId {
    use openshell_lifecycle::LifecycleFence as _;
    g.fence.list()[0].meta.id
}

#[tokio::test]
async fn a_watch_ends_when_its_sandbox_is_deleted() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let request = api::WatchSandboxRequest {
        follow_logs: true,
        ..Default::default()
    };
    let mut stream = watch(&g, request).await.unwrap();
    next(&mut stream).await.unwrap();
    let delete = api::DeleteSandboxRequest {
        name: "a".to_owned(),
        ..Default::default()
    };
    g.user().delete_sandbox(delete).await.unwrap();
    while next(&mut stream).await.is_some() {}
}

#[tokio::test]
async fn the_journal_is_listed_and_followed() {
    let g = Gateway::start().await;
    g.ready("a").await;
    let request = |follow, tail| plus::ListEventsRequest {
        sandbox: "a".to_owned(),
        follow,
        tail,
        ..Default::default()
    };
    let mut all = g
        .plus()
        .list_events(request(false, 0))
        .await
        .unwrap()
        .into_inner();
    let mut inputs = Vec::new();
    while let Some(entry) = all.message().await.unwrap() {
        inputs.push(entry.input);
    }
    assert_eq!(inputs.first().map(String::as_str), Some("command create"));
    let mut follow = g
        .plus()
        .list_events(request(true, 1))
        .await
        .unwrap()
        .into_inner();
    let last = follow.message().await.unwrap().unwrap();
    assert_eq!(Some(&last.input), inputs.last());
    let stop = api::StopSandboxRequest {
        name: "a".to_owned(),
        ..Default::default()
    };
    g.user().stop_sandbox(stop).await.unwrap();
    let next = tokio::time::timeout(DEADLINE, follow.message())
        .await
        .unwrap()
        .unwrap()
        .unwrap();
    assert_eq!(next.input, "command stop");
    assert!(next.sequence > last.sequence);
}
