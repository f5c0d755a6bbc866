//! What the log buffer keeps, drops and repeats.

use super::{BATCH_LINES, LogBuffer, WAITING_BYTES, WAITING_LINES};
use openshell_proto::link::LogLine;

fn line(message: String) -> LogLine {
    LogLine {
        message,
        ..LogLine::default()
    }
}

fn drain(logs: &LogBuffer) -> Vec<String> {
    let mut all = Vec::new();
    while let Some(batch) = logs.batch(false) {
        logs.acknowledge(batch.sequence);
        all.extend(batch.lines.into_iter().map(|l| l.message));
    }
    all
}

#[test]
fn lines_come_out_in_order_and_once() {
    let logs = LogBuffer::default();
    for n in 0..2 * BATCH_LINES + 1 {
        logs.push(line(n.to_string()));
    }
    let expected: Vec<_> = (0..2 * BATCH_LINES + 1).map(|n| n.to_string()).collect();
    assert_eq!(drain(&logs), expected);
    assert!(logs.batch(false).is_none());
}

#[test]
fn a_batch_is_repeated_to_a_new_session_until_it_is_acknowledged() {
    let logs = LogBuffer::default();
    logs.push(line("a".to_owned()));
    let first = logs.batch(false).unwrap();
    logs.push(line("b".to_owned()));
    assert!(logs.batch(false).is_none(), "one batch is in flight");
    assert_eq!(logs.batch(true).unwrap(), first);
    logs.acknowledge(first.sequence);
    let second = logs.batch(true).unwrap();
    assert_eq!(second.sequence, first.sequence + 1);
    assert_eq!(second.lines[0].message, "b");
}

#[test]
fn the_oldest_lines_are_dropped_and_the_next_batch_says_how_many() {
    let logs = LogBuffer::default();
    for n in 0..WAITING_LINES + 7 {
        logs.push(line(n.to_string()));
    }
    let all = drain(&logs);
    assert!(
        all[0].starts_with("7 log lines were dropped"),
        "{:?}",
        all[0]
    );
    assert_eq!(all[1], "7");
    assert_eq!(all.len(), WAITING_LINES + 1);
}

#[test]
fn what_waits_is_bounded_in_bytes_and_a_long_message_is_cut_at_a_character() {
    let logs = LogBuffer::default();
    for _ in 0..1000 {
        logs.push(line("ü".repeat(30_000)));
    }
    let all = drain(&logs);
    assert!(all.iter().map(String::len).sum::<usize>() <= WAITING_BYTES + 1024);
    assert!(all[1].ends_with('…'));
    assert!(all[1].len() < 9000);
}

#[test]
fn control_characters_do_not_reach_a_terminal() {
    let logs = LogBuffer::default();
    logs.push(line("a\tb\u{1b}[2Jc\nd".to_owned()));
    assert_eq!(drain(&logs), ["a\tb\\u{1b}[2Jc\\nd"]);
}
