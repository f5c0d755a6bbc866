//! Tests of the patterns.

use proptest::prelude::*;

use super::*;

fn path(pattern: &str) -> Glob {
    Glob::path(pattern).unwrap()
}

#[test]
fn a_star_is_part_of_a_segment_and_two_are_any_segments() {
    for (pattern, text, fits) in [
        ("/**", "/", true),
        ("/**", "/a/b", true),
        ("/a/**", "/a", false),
        ("/a/**", "/a/", true),
        ("/a/**", "/a/b/c", true),
        ("/a/**", "/ab", false),
        ("/a/*", "/a/b", true),
        ("/a/*", "/a/b/c", false),
        ("/a/*", "/a/", true),
        ("/a/**/z", "/a/z", true),
        ("/a/**/z", "/a/b/c/z", true),
        ("/a/**/z", "/a/b/c", false),
        ("/**/info/refs*", "/owner/repo.git/info/refs", true),
        ("/**/b/**/d", "/a/b/c/b/x/d", true),
        ("/v*/x", "/v12/x", true),
        ("/v*x", "/vax/x", false),
        ("/a", "/A", false),
        ("/é*", "/école", true),
    ] {
        assert_eq!(path(pattern).matches(text), fits, "{pattern} {text}");
    }
    for (pattern, text, fits) in [
        ("1.*", "1.2", true),
        ("1.*", "1.2.3", false),
        ("1.**", "1.2.3", true),
        ("*", "a.b", false),
        ("**", "a.b", true),
        ("**", "", true),
    ] {
        assert_eq!(
            Glob::dotted(pattern).unwrap().matches(text),
            fits,
            "{pattern} {text}"
        );
    }
}

#[test]
fn what_has_no_meaning_in_a_pattern_is_refused() {
    for pattern in ["/a**", "/**a/b", "/[a]", "/{a,b}", "/a\\b", "/a\nb"] {
        assert!(Glob::path(pattern).is_err(), "{pattern:?}");
    }
    assert!(Glob::path(&"a".repeat(5000)).is_err());
}

/// As the words say it, without a thought for speed.
fn plainly(pattern: &[&str], text: &[&str]) -> bool {
    fn one(pattern: &[u8], text: &[u8]) -> bool {
        match (pattern.split_first(), text.split_first()) {
            (None, None) => true,
            (Some((b'*', rest)), _) => {
                one(rest, text) || text.split_first().is_some_and(|(_, t)| one(pattern, t))
            }
            (Some((p, rest)), Some((t, more))) => p == t && one(rest, more),
            _ => false,
        }
    }
    match pattern.split_first() {
        None => text.is_empty(),
        Some((&"**", [])) => !text.is_empty(),
        Some((&"**", rest)) => (0..=text.len()).any(|n| plainly(rest, &text[n..])),
        Some((p, rest)) => text
            .split_first()
            .is_some_and(|(t, more)| one(p.as_bytes(), t.as_bytes()) && plainly(rest, more)),
    }
}

proptest! {
    #[test]
    fn a_pattern_matches_what_its_words_say(
        pattern in "(/(\\*\\*|[ab*]{0,3})){1,5}", text in "(/[ab]{0,3}){1,6}"
    ) {
        if let Ok(glob) = Glob::path(&pattern) {
            let words: Vec<_> = pattern.split('/').collect();
            let segments: Vec<_> = text.split('/').collect();
            prop_assert_eq!(glob.matches(&text), plainly(&words, &segments));
        }
    }

    #[test]
    fn no_pattern_and_no_text_make_a_matcher_panic(pattern in ".{0,60}", text in ".{0,60}") {
        if let Ok(glob) = Glob::path(&pattern) {
            let _ = glob.matches(&text);
        }
        if let Ok(glob) = Glob::dotted(&pattern) {
            let _ = glob.matches(&text);
        }
    }

    #[test]
    fn a_pattern_without_stars_matches_itself_only(pattern in "/[a-z/.%-]{0,20}", text in "/[a-z/.%-]{0,20}") {
        let glob = Glob::path(&pattern).unwrap();
        prop_assert!(glob.matches(&pattern));
        prop_assert_eq!(glob.matches(&text), pattern == text);
    }
}
