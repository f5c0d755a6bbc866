//! Tables and formats.

use super::*;

#[test]
fn a_table_pads_columns_and_shows_nothing_as_a_dash() {
    let mut table = Table::new(&["NAME", "PHASE"]);
    table.row(["a-long-name".into(), "Ready".into()]);
    table.row(["b".into(), String::new()]);
    assert_eq!(
        table.render(),
        "NAME         PHASE\na-long-name  Ready\nb            -"
    );
}

#[test]
fn escape_sequences_of_others_never_reach_the_terminal() {
    let mut table = Table::new(&["NAME"]);
    table.row(["\u{1b}[31mred\u{7}".into()]);
    assert!(!table.render().contains('\u{1b}'));
    assert!(!fields(&[("Message", "\u{1b}]0;x\u{7}".into())]).contains('\u{1b}'));
}

#[test]
fn empty_fields_are_left_out() {
    assert_eq!(
        fields(&[
            ("Name", "a".into()),
            ("Reason", String::new()),
            ("Message", "b".into())
        ]),
        "Name:     a\nMessage:  b"
    );
}
