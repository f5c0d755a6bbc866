//! Pages cover a list once, in order, whatever changes meanwhile.

use super::*;
use tonic::Code;

fn key(n: &u32) -> Key {
    ("default".to_owned(), format!("{n:04}"))
}

#[test]
fn pages_cover_a_list_once_and_in_order() {
    let (mut seen, mut token) = (Vec::new(), String::new());
    loop {
        let (page, next) = Page::parse(7, &token).unwrap().cut(0..50, key);
        seen.extend(page);
        token = next;
        if token.is_empty() {
            break;
        }
    }
    assert_eq!(seen, (0..50).collect::<Vec<_>>());
}

#[test]
fn a_full_last_page_has_no_token() {
    let (page, token) = Page::parse(10, "").unwrap().cut(0..10, key);
    assert_eq!((page.len(), token.as_str()), (10, ""));
}

#[test]
fn zero_means_a_hundred_and_more_than_a_thousand_a_thousand() {
    assert_eq!(Page::parse(0, "").unwrap().cut(0..5000, key).0.len(), 100);
    assert_eq!(
        Page::parse(i32::MAX, "").unwrap().cut(0..5000, key).0.len(),
        1000
    );
}

#[test]
fn the_next_page_starts_after_the_last_item_even_if_that_is_gone() {
    let (_, token) = Page::parse(3, "").unwrap().cut(0..9, key);
    let (page, _) = Page::parse(3, &token).unwrap().cut([0, 1, 3, 4, 5, 6], key);
    assert_eq!(page, [3, 4, 5]);
}

#[test]
fn a_negative_size_and_a_garbage_token_are_invalid_arguments() {
    for (size, token) in [
        (-1, ""),
        (1, "garbage!"),
        (1, "AAAA"),
        (1, &*"A".repeat(9999)),
    ] {
        let e = Page::parse(size, token).unwrap_err();
        assert_eq!(e.code(), Code::InvalidArgument);
    }
}
