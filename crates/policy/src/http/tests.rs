//! Tests of what rules see of a request.

use proptest::prelude::*;

use super::*;

#[test]
fn a_path_has_one_form_whatever_way_it_was_written() {
    for (raw, seen) in [
        ("/", "/"),
        ("/a/b", "/a/b"),
        ("/%61/b", "/a/b"),
        ("//a///b", "/a/b"),
        ("/a/", "/a/"),
        ("/a//", "/a/"),
        ("/a%20b", "/a b"),
        ("/caf%C3%A9", "/café"),
        ("/a%2fb", "/a%2Fb"),
        ("/a%252eb", "/a%2eb"),
        ("/.git/..a", "/.git/..a"),
    ] {
        assert_eq!(RequestPath::parse(raw).unwrap().as_str(), seen, "{raw}");
    }
}

#[test]
fn a_path_that_two_readers_would_read_differently_is_not_read() {
    for (raw, why) in [
        ("", Unclear::NotAPath),
        ("*", Unclear::NotAPath),
        ("http://a/b", Unclear::NotAPath),
        ("/a/../b", Unclear::DotSegment),
        ("/a/%2e%2E/b", Unclear::DotSegment),
        ("/./a", Unclear::DotSegment),
        ("/a\\b", Unclear::OddCharacter),
        ("/a%5cb", Unclear::OddCharacter),
        ("/a%00", Unclear::OddCharacter),
        ("/a\rb", Unclear::OddCharacter),
        ("/a%zz", Unclear::OddCharacter),
        ("/a%2", Unclear::OddCharacter),
        ("/a%ff", Unclear::OddCharacter),
        ("/é", Unclear::OddCharacter),
        ("/a?b", Unclear::OddCharacter),
        ("/a b", Unclear::OddCharacter),
    ] {
        assert_eq!(RequestPath::parse(raw), Err(why), "{raw:?}");
    }
    assert!(RequestPath::parse("/a%2Fb").unwrap().has_encoded_slash());
}

#[test]
fn a_method_that_is_refused_is_refused_in_any_capitals() {
    let method = Method::parse("delete").unwrap();
    assert!(method.allows("DELETE") && !method.allows("delete"));
    assert!(method.denies("DELETE") && method.denies("Delete"));
    for text in ["", "GE T", "GET\n", "G*"] {
        assert!(Method::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn parameters_are_decoded() {
    let all: Vec<_> = parameters("a=1%2B1&b&&a=x+y&%63=%").collect();
    let all: Vec<_> = all.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    assert_eq!(all, [("a", "1+1"), ("b", ""), ("a", "x y"), ("c", "%")]);
}

proptest! {
    #[test]
    fn no_path_and_no_query_make_the_reader_panic(text in ".{0,60}|/[a%2f./]{0,30}") {
        let _ = RequestPath::parse(&text);
        let _ = parameters(&text).count();
    }

    #[test]
    fn a_path_that_was_read_has_no_dot_segment_and_no_empty_one_inside(text in "/[a%2ef./]{0,30}") {
        if let Ok(path) = RequestPath::parse(&text) {
            let inside = path.as_str().split('/').skip(1);
            prop_assert!(inside.clone().all(|s| s != "." && s != ".."));
            prop_assert!(!path.as_str().contains("//"));
        }
    }
}
