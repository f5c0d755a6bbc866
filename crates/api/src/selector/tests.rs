//! Selectors select what they say.

use super::*;
use tonic::Code;

fn labels() -> BTreeMap<String, String> {
    [("app", "web"), ("tier", "prod"), ("x.io/team", "")]
        .map(|(k, v)| (k.to_owned(), v.to_owned()))
        .into()
}

#[test]
fn all_terms_of_a_selector_must_hold() {
    for (text, holds) in [
        ("", true),
        ("app=web", true),
        ("app==web, tier=prod", true),
        ("app=web,tier=test", false),
        ("tier!=test", true),
        ("absent!=x", true),
        ("x.io/team", true),
        ("x.io/team=", true),
        ("!app", false),
        ("!absent", true),
        ("absent", false),
    ] {
        assert_eq!(
            Selector::parse(text).unwrap().matches(&labels()),
            holds,
            "{text}"
        );
    }
}

#[test]
fn a_malformed_selector_is_an_invalid_argument() {
    for text in ["=v", ",", "a=b=c", "a b", "!", "a=b,", "k=v\0"] {
        let e = Selector::parse(text).unwrap_err();
        assert_eq!(e.code(), Code::InvalidArgument, "{text}");
        assert!(e.message().contains("label_selector"));
    }
}
