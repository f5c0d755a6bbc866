//! Policy files, without a gateway.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::Value;

use super::run::{Done, command, done};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../config/policies")
        .join(name)
}

fn check(args: &[&str], input: &[u8]) -> Done {
    let dir = tempfile::tempdir().unwrap();
    let mut args = args.to_vec();
    args.splice(0..0, ["policy", "check"]);
    let mut child = command(dir.path(), &args)
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // It may end before it has read everything.
    let _ = stdin.write_all(input);
    drop(stdin);
    done(child.wait_with_output().unwrap())
}

#[test]
fn every_example_is_valid_and_its_normal_form_too() {
    for name in [
        "restrictive.yaml",
        "github-read-only.yaml",
        "model-api.yaml",
        "private-services.yaml",
    ] {
        let file = example(name);
        let done = check(&[file.to_str().unwrap(), "-o", "yaml"], b"");
        assert_eq!((done.code, done.stderr.as_str()), (0, ""), "{done:?}");
        let again = check(&["-", "-o", "yaml"], done.stdout.as_bytes());
        assert_eq!((again.code, again.stdout), (0, done.stdout));
    }
}

#[test]
fn a_policy_that_is_not_valid_is_2_with_every_place_and_reason() {
    let done = check(
        &["-"],
        b"version: 1\nnetwork_policies:\n  a:\n    endpoint: []\nlandlok: {}\n",
    );
    assert_eq!((done.code, done.stdout.as_str()), (2, ""));
    insta::assert_snapshot!(done.stderr.trim_end(), @r"
    error: - is not a valid policy
      why: line 4, column 5: network_policies.a: `endpoint` is not a key that is known here; did you mean `endpoints`?
           line 5, column 1: `landlok` is not a key that is known here; did you mean `landlock`?
    ");
}

#[test]
fn a_program_gets_the_problems_or_the_policy_as_json() {
    let bad = check(&["-", "-o", "json"], b"version: 2\n");
    assert_eq!(bad.code, 2);
    let json: Value = serde_json::from_str(&bad.stdout).unwrap();
    assert_eq!(json["valid"], false);
    assert_eq!(
        (&json["problems"][0]["line"], &json["problems"][0]["path"]),
        (&1.into(), &"version".into())
    );
    let good = check(&["-", "-o", "json"], b"version: 1\n");
    assert_eq!(good.code, 0);
    let json: Value = serde_json::from_str(&good.stdout).unwrap();
    assert_eq!(
        (&json["valid"], &json["policy"]["version"]),
        (&true.into(), &1.into())
    );
    assert_eq!(json["hash"].as_str().unwrap().len(), 64);
}

#[test]
fn a_file_that_cannot_be_read_is_1_and_one_that_is_too_large_or_no_text_is_2() {
    assert_eq!(check(&["/nonexistent/policy.yaml"], b"").code, 1);
    let large = vec![b'#'; (4 << 20) + 1];
    let done = check(&["-"], &large);
    assert!(
        done.code == 2 && done.stderr.contains("larger than 4194304"),
        "{}",
        done.stderr
    );
    let done = check(&["-"], b"version: 1\n\xff\n");
    assert!(
        done.code == 2 && done.stderr.contains("line 2: this is not UTF-8"),
        "{}",
        done.stderr
    );
}

#[test]
fn what_a_file_says_reaches_no_terminal_unescaped() {
    let done = check(&["-"], b"version: 1\n\"\\e[31m\": 1\n");
    assert_eq!(done.code, 2);
    assert!(!done.stderr.contains('\u{1b}'), "{done:?}");
}
