//! Tests of the rules that a policy must keep.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn wrong(yaml: &str) -> Vec<String> {
    match Policy::parse(yaml) {
        Ok(checked) => panic!("accepted: {checked:?}"),
        Err(problems) => problems.0.iter().map(ToString::to_string).collect(),
    }
}

fn right(yaml: &str) -> Checked {
    Policy::parse(yaml).unwrap_or_else(|problems| panic!("{problems}\n{yaml}"))
}

/// A policy whose one endpoint has these lines.
fn endpoint(lines: &str) -> String {
    let lines: String = lines
        .split('\n')
        .map(|line| format!("        {line}\n"))
        .collect();
    format!(
        "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n      -\n{lines}    binaries: [/usr/bin/curl]\n"
    )
}

#[test]
fn the_published_examples_load_and_survive_their_normal_form() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../config/policies");
    let mut count = 0;
    for entry in std::fs::read_dir(directory).unwrap() {
        let checked = right(&std::fs::read_to_string(entry.unwrap().path()).unwrap());
        assert_eq!(checked.remarks, []);
        again(&checked.policy);
        count += 1;
    }
    assert!(count >= 4);
}

/// The normal form, as YAML and as JSON, is the same policy.
fn again(policy: &Policy) {
    let document = policy.document();
    let yaml = serde_saphyr::to_string(&document).unwrap();
    assert_eq!(&right(&yaml).policy, policy, "{yaml}");
    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(&Policy::from_value(json).unwrap().policy, policy);
}

#[test]
fn a_file_of_an_older_version_loads_with_a_remark() {
    let checked = right(&endpoint(
        "host: api.example.com\nport: 443\nprotocol: rest\ntls: terminate\nenforcement: enforce\nrules:\n\
         - allow: { method: GET, path: /** }\n- allow:\n    method: POST\n    path: /v1/chat/completions",
    ));
    assert!(
        checked.remarks[0].message.contains("tls: terminate"),
        "{:?}",
        checked.remarks
    );
    again(&checked.policy);
}

#[test]
fn an_unknown_key_is_refused_with_its_place_and_the_key_that_was_meant() {
    assert_eq!(
        wrong("version: 1\nnetwork_policy:\n  a: {}\n"),
        [
            "line 2, column 1: `network_policy` is not a key that is known here; did you mean `network_policies`?"
        ]
    );
    assert_eq!(
        wrong(&endpoint("hots: api.example.com\nport: 443")),
        [
            "line 6, column 9: network_policies.a.endpoints[0]: `hots` is not a key that is known here; did you mean `host`?"
        ]
    );
}

#[test]
fn a_key_that_is_there_twice_is_refused() {
    for yaml in [
        "version: 1\nversion: 1\n",
        "version: 1\nnetwork_policies:\n  a: {}\n  a: {}\n",
        "version: 1\nlandlock: {compatibility: best_effort, compatibility: hard_requirement}\n",
    ] {
        assert!(wrong(yaml)[0].contains("is there twice"), "{yaml}");
    }
}

#[test]
fn everything_that_is_wrong_is_said_at_once_in_the_order_of_the_file() {
    let said = wrong(
        "version: 2\nlandlock: {compatibility: best-effort}\nprocess: {run_as_user: 0}\nx: 1\n",
    );
    assert_eq!(
        said,
        [
            "line 1, column 10: version: 2 must be 1",
            "line 2, column 27: landlock.compatibility: `best-effort` is not one of best_effort, hard_requirement; did you mean `best_effort`?",
            "line 3, column 24: process.run_as_user: 0 must be from 1 to 4294967294",
            "line 4, column 1: `x` is not a key that is known here",
        ]
    );
}

#[test]
fn what_is_not_enforced_yet_is_refused_and_not_ignored() {
    let api = "host: api.example.com\nport: 443\n";
    for lines in [
        "protocol: graphql\naccess: full",
        "protocol: mcp\naccess: full",
        "protocol: json-rpc\naccess: full",
        "credential_binding: { provider: a }",
        "request_body_credential_rewrite: true",
        "websocket_credential_rewrite: false",
        "allow_uninspected_credentials: true",
        "credential_signing: sigv4",
        "mcp: {}",
        "json_rpc: { max_body_bytes: 1 }",
        "persisted_queries: x",
        "graphql_max_body_bytes: 65536",
        "protocol: rest\nrules: [{ allow: { method: POST, tool: x } }]",
        "protocol: rest\nrules: [{ allow: { operation_type: query } }]",
    ] {
        let said = wrong(&endpoint(&format!("{api}{lines}")));
        assert!(
            said.iter().any(|said| said.contains("not supported yet")),
            "{said:?}"
        );
    }
    let said = wrong("version: 1\nnetwork_middlewares:\n  a: { middleware: openshell/regex }\n");
    assert!(said[0].contains("not supported yet"), "{said:?}");
}

#[test]
fn paths_are_absolute_and_few_and_do_not_give_everything_away() {
    for paths in [
        "read_only: [usr]",
        "read_only: [/usr/../etc]",
        "read_write: [/]",
        "read_write: [//./]",
        "read_write: [\"\"]",
        "read_only: [/.openshell/x]",
        "read_only: [\"/a\\n\"]",
        "read_only: /usr",
        "read_only: [1]",
    ] {
        wrong(&format!("version: 1\nfilesystem_policy: {{ {paths} }}\n"));
    }
    let list = |count: usize| {
        (0..count)
            .map(|i| format!("/p{i}"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    let file = |count| {
        format!(
            "version: 1\nfilesystem_policy: {{ read_only: [{}] }}\n",
            list(count)
        )
    };
    right(&file(256));
    assert!(wrong(&file(257))[0].contains("257 paths"));
    let long = format!(
        "version: 1\nfilesystem_policy: {{ read_only: [/{}] }}\n",
        "a".repeat(4096)
    );
    assert!(wrong(&long)[0].contains("4096"));
    let policy = right("version: 1\nfilesystem_policy: { read_only: [/usr//lib/./, /] }\n").policy;
    let files = policy.filesystem.unwrap();
    assert!(!files.include_workdir && files.read_only.contains("/usr/lib"));
    assert_eq!(right("version: 1\n").policy.filesystem, None);
}

#[test]
fn nobody_runs_as_root() {
    for (user, fine) in [
        ("sandbox", true),
        ("1", true),
        ("\"1000\"", true),
        ("4294967294", true),
        ("4294967295", false),
        ("0", false),
        ("\"0\"", false),
        ("root", false),
        ("-1", false),
        ("\"+5\"", false),
        ("\"\"", false),
    ] {
        let yaml = format!("version: 1\nprocess: {{ run_as_user: {user} }}\n");
        assert_eq!(Policy::parse(&yaml).is_ok(), fine, "{user}");
    }
}

#[test]
fn an_endpoint_has_a_destination_that_can_be_reached() {
    for lines in [
        "port: 443",
        "host: api.example.com",
        "host: api.example.com\nport: 443\nports: [443]",
        "host: api.example.com\nports: []",
        "host: api.example.com\nport: 0",
        "host: api.example.com\nport: 65536",
        "host: api.example.com\nport: \"443\"",
        "host: etcd.example.com\nport: 2379",
        "host: k.example.com\nports: [443, 6443]",
        "host: 127.0.0.1\nport: 443",
        "host: a.example.com\nport: 443\nallowed_ips: [169.254.169.254]",
        "port: 443\nallowed_ips: []",
    ] {
        wrong(&endpoint(lines));
    }
    right(&endpoint("port: 443\nallowed_ips: [10.0.0.0/8]"));
}

#[test]
fn rules_need_a_protocol_that_is_inspected_and_say_something() {
    let api = "host: api.example.com\nport: 443\n";
    for lines in [
        "protocol: rest",
        "protocol: rest\nrules: []",
        "protocol: rest\naccess: full\nrules: [{ allow: { method: GET } }]",
        "protocol: rest\naccess: full\ntls: skip",
        "access: read-only",
        "rules: [{ allow: { method: GET } }]",
        "protocol: tcp\ndeny_rules: [{ method: GET }]",
        "protocol: tcp\npath: /a",
        "protocol: rest\nrules: [{ allow: {} }]",
        "protocol: rest\nrules: [{ method: GET }]",
        "protocol: rest\nrules: [{ allow: { method: WEBSOCKET_TEXT } }]",
        "protocol: websocket\nrules: [{ allow: { method: POST } }]",
        "protocol: rest\nrules: [{ allow: { path: a } }]",
        "protocol: rest\nrules: [{ allow: { path: /a?b } }]",
        "protocol: rest\nrules: [{ allow: { path: /a/../b } }]",
        "protocol: rest\nrules: [{ allow: { path: /a%2Fb } }]",
        "protocol: rest\nrules: [{ allow: { path: /a%20b } }]",
        "protocol: rest\nrules: [{ allow: { path: /a//b } }]",
        "protocol: rest\nrules: [{ allow: { query: { a: {} } } }]",
        "protocol: rest\nrules: [{ allow: { query: { a: { any: [] } } } }]",
        "protocol: rest\nrules: [{ allow: { query: { a: { any: [x], glob: y } } } }]",
        "protocol: rest\nrules: [{ allow: { query: { \"a\\e\": b } } }]",
        "protocol: REST\naccess: full",
    ] {
        wrong(&endpoint(&format!("{api}{lines}")));
    }
}

#[test]
fn endpoints_of_one_host_and_port_agree() {
    let with = |one: &str, two: &str| {
        format!(
            "version: 1\nnetwork_policies:\n  a:\n    endpoints: [{{ host: h.example.com, port: 443, {one} }}]\n    \
             binaries: [/a]\n  b:\n    endpoints: [{{ host: h.example.com, ports: [80, 443], {two} }}]\n    binaries: [/b]\n"
        )
    };
    let said = wrong(&with("tls: skip", "protocol: rest, access: full"));
    assert!(said[0].contains("h.example.com:443 is also in network_policies.a.endpoints[0] (line 4), with another `tls`"), "{said:?}");
    wrong(&with("allowed_ips: [10.0.0.0/8]", "protocol: tcp"));
    wrong(&with(
        "protocol: rest, access: full, allow_encoded_slash: true",
        "protocol: rest, access: full",
    ));
    right(&with(
        "protocol: rest, access: full",
        "protocol: rest, access: read-only",
    ));
    right(&with(
        "allowed_ips: [10.0.0.0/8, 10.1.0.0/16]",
        "allowed_ips: [10.1.0.0/16, 10.0.0.0/8]",
    ));
}

#[test]
fn a_rule_has_a_name_of_its_owner_and_programs_by_their_paths() {
    let rule = |key: &str, binaries: &str| {
        format!(
            "version: 1\nnetwork_policies:\n  {key}:\n    endpoints: [{{ host: a.example.com, port: 1 }}]\n    binaries: {binaries}\n"
        )
    };
    for (key, binaries) in [
        ("_provider_x", "[/a]"),
        ("\"\"", "[/a]"),
        ("\"a\\nb\"", "[/a]"),
        ("a", "[curl]"),
        ("a", "[/a/../b]"),
        ("a", "[{}]"),
        ("a", "[{ path: \"\" }]"),
        ("a", "[\"/a**\"]"),
        ("a", "/a"),
    ] {
        wrong(&rule(key, binaries));
    }
    assert!(
        right(&rule("a", "[]")).remarks[0]
            .message
            .contains("matches no program")
    );
    right(&rule("a", "[/a, { path: \"/opt/**\" }]"));
}

#[test]
fn the_hash_does_not_see_order_or_another_way_of_writing() {
    let one = right(
        "version: 1\nnetwork_policies:\n  a:\n    name: a\n    endpoints: [{ host: A.example.com, ports: [443] }, { host: b.example.com, ports: [2, 1] }]\n    binaries: [/b, { path: /a }]\n  b: {}\nprocess: { run_as_user: \"5\" }\n",
    );
    let two = right(
        "process: { run_as_user: 5 }\nnetwork_policies:\n  b: {}\n  a:\n    endpoints: [{ host: b.example.com, ports: [1, 2, 2] }, { host: a.example.com, port: 443 }, { host: a.example.com, port: 443 }]\n    binaries: [/a, /b, /a]\nversion: 1\n",
    );
    assert_eq!(one.policy, two.policy);
    assert_eq!(one.policy.hash(), two.policy.hash());
    assert_eq!(one.policy.hash().len(), 64);
    let three = right("version: 1\n");
    assert_ne!(one.policy.hash(), three.policy.hash());
}

#[test]
fn files_that_are_no_policy_are_refused_and_never_hang() {
    let deep = format!(
        "version: 1\nx: {}{}\n",
        "[".repeat(10_000),
        "]".repeat(10_000)
    );
    let mut bomb = "a0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for i in 1..12 {
        bomb += &format!(
            "a{i}: &a{i} [{}]\n",
            vec![format!("*a{}", i - 1); 9].join(", ")
        );
    }
    let large = format!("version: 1\n#{}\n", "x".repeat(crate::LARGEST));
    for yaml in [
        "",
        "# nothing\n",
        "[]",
        "1",
        "text",
        "version",
        "version: [",
        "\t",
        "version: 1\n---\nversion: 1\n",
        "version: one",
        "version: \"1\"",
        "version: 1.0",
        "version: ~",
        "version: 1\nnetwork_policies: ~\n",
        "version: 1\nlandlock: &a { compatibility: best_effort }\nprocess: { <<: *a }\n",
        "version: !x 1\n",
        "version: 1\n? [a]\n: 1\n",
        "\u{0}",
        &deep,
        &bomb,
        &large,
    ] {
        wrong(yaml);
    }
    let said = wrong(
        "version: 1\nnetwork_policies:\n  a:\n    endpoints:\n      - host: *.example.com\n        port: 443\n",
    );
    assert!(said[0].contains("needs quotes"), "{said:?}");
    assert!(said[0].starts_with("line 5, column "), "{said:?}");
}

#[test]
fn a_name_that_is_nearly_long_enough_to_hang_is_shown_short() {
    let said = wrong(&format!("version: 1\n{}: 1\n", "x".repeat(100_000)));
    assert!(said[0].len() < 400, "{}", said[0].len());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in ".{0,200}") {
        let _ = Policy::parse(&text);
        let _ = Policy::parse(&format!("version: 1\nnetwork_policies: {text}"));
    }

    #[test]
    fn no_tree_makes_the_reader_panic(
        key in "host|port|ports|path|rules|tls|protocol|access|allowed_ips|deny_rules|x",
        value in "[a-z0-9:{}\\[\\], *\"/.]{0,30}"
    ) {
        let _ = Policy::parse(&endpoint(&format!("{key}: {value}")));
    }
}
