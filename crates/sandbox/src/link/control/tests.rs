//! What survives a lost link and what does not.

use super::*;

fn exit(code: i32) -> Exit {
    Exit {
        code,
        ..Exit::default()
    }
}

#[tokio::test]
async fn the_end_of_main_is_kept_until_it_is_acknowledged() {
    let control = Control::new();
    control.report_exit(exit(3));
    for _ in 0..2 {
        let (tx, mut rx) = mpsc::channel(8);
        let name = control.connect(tx);
        assert_eq!(
            rx.recv().await.unwrap().message,
            Some(Out::MainExit(exit(3)))
        );
        control.disconnect(name);
    }
    control.receive(ControlFromSupervisor {
        message: Some(In::ExitAck(openshell_proto::link::ExitAck {})),
    });
    control.exit_acknowledged().await;
}

#[tokio::test]
async fn questions_fail_when_the_link_goes_and_without_one() {
    let control = Control::new();
    assert!(control.ask_name("x".to_owned(), 1).await.is_none());
    let (tx, mut rx) = mpsc::channel(8);
    let name = control.connect(tx);
    let ask = control.ask_egress(EgressRequest::default());
    let lose = async {
        rx.recv().await.unwrap();
        control.disconnect(name);
    };
    assert!(tokio::join!(ask, lose).0.is_none());
}

#[tokio::test]
async fn an_answer_finds_its_question() {
    let control = Control::new();
    let (tx, mut rx) = mpsc::channel(8);
    control.connect(tx);
    let ask = control.ask_name("a.example".to_owned(), 1);
    let answer = async {
        let Some(Out::Name(question)) = rx.recv().await.unwrap().message else {
            panic!("no question");
        };
        control.receive(ControlFromSupervisor {
            message: Some(In::Name(NameAnswer {
                id: question.id,
                addresses: vec!["198.18.0.1".to_owned()],
                ttl_seconds: 5,
            })),
        });
    };
    assert_eq!(tokio::join!(ask, answer).0.unwrap().ttl_seconds, 5);
}

#[tokio::test]
async fn log_lines_are_kept_within_a_bound_and_what_is_lost_is_counted() {
    let control = Control::new();
    for n in 0..BACKLOG + 7 {
        control.log("info", "t", n.to_string(), &[]);
    }
    let (tx, mut rx) = mpsc::channel(2 * BACKLOG);
    control.connect(tx);
    control.log("info", "t", "after".to_owned(), &[]);
    let mut lines = Vec::new();
    while let Ok(ControlFromSandbox {
        message: Some(Out::Log(line)),
    }) = rx.try_recv()
    {
        lines.push(line.message);
    }
    assert_eq!(lines.len(), BACKLOG + 2);
    assert_eq!(lines[BACKLOG..], ["7 log lines were dropped", "after"]);
}
