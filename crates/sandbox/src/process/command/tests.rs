//! What is run for what was asked.

use super::*;

fn spec(argv: &[&str]) -> ProcessSpec {
    ProcessSpec {
        argv: argv.iter().map(|s| (*s).to_owned()).collect(),
        workdir: "/".to_owned(),
        ..ProcessSpec::default()
    }
}

fn base() -> Base {
    let image = [("PATH".to_owned(), OsString::from("/usr/bin:/bin"))];
    Base::new(image.into(), None)
}

#[test]
fn argv_is_run_as_it_stands() {
    let plan = plan(&spec(&["sh", "-c", "echo 'a  b' $x"]), &base()).unwrap();
    assert!(plan.program.ends_with("sh"));
    assert_eq!(plan.name, "sh");
    assert_eq!(plan.arguments, ["-c", "echo 'a  b' $x"]);
}

#[test]
fn a_login_shell_runs_argv_without_a_second_look_at_it() {
    let mut spec = spec(&["printf", "%s\n", "a  b; $(reboot) *"]);
    spec.login_shell = true;
    let plan = plan(&spec, &base()).unwrap();
    assert_eq!(plan.arguments[..2], ["-lc", EXACTLY]);
    assert_eq!(plan.arguments[3..], ["printf", "%s\n", "a  b; $(reboot) *"]);
}

#[test]
fn without_a_command_it_is_an_interactive_login_shell() {
    let mut spec = spec(&[]);
    spec.login_shell = true;
    assert_eq!(plan(&spec, &base()).unwrap().arguments, ["-l"]);
    spec.environment = [("PATH".to_owned(), "/nowhere".to_owned())].into();
    assert!(plan(&spec, &base()).unwrap().program.starts_with("/bin"));
}

#[test]
fn missing_is_127_and_not_executable_is_126() {
    let code = |argv: &[&str]| plan(&spec(argv), &base()).unwrap_err().code;
    assert_eq!(code(&["no-such-command-here"]), 127);
    assert_eq!(code(&["/no/such/file"]), 127);
    assert_eq!(code(&["/etc/passwd"]), 126);
    assert_eq!(code(&["/etc"]), 126);
    let mut lost = spec(&["sh"]);
    lost.workdir = "/no/such/place".to_owned();
    let refusal = plan(&lost, &base()).unwrap_err();
    assert!(refusal.message.contains("/no/such/place"), "{refusal}");
}

#[test]
fn a_program_of_another_architecture_is_not_taken_for_a_script() {
    let mut head = [0; 20];
    head[..7].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1]);
    head[18] = 243;
    assert!(foreign(&head));
    head[18] = if cfg!(target_arch = "x86_64") {
        62
    } else {
        183
    };
    assert!(!foreign(&head));
    assert!(!foreign(b"#!/bin/sh\n"));
}

#[test]
fn requests_that_can_never_be_are_refused() {
    assert_eq!(check(&spec(&[])), Err(Invalid::Empty));
    assert_eq!(check(&spec(&[""])), Err(Invalid::Empty));
    assert!(matches!(check(&spec(&["a\0b"])), Err(Invalid::Nul(_))));
    let mut relative = spec(&["x"]);
    relative.workdir = "there".to_owned();
    assert!(matches!(check(&relative), Err(Invalid::Directory(_))));
    for name in ["", "a=b", "a\0"] {
        let mut named = spec(&["x"]);
        named.environment = [(name.to_owned(), String::new())].into();
        assert!(check(&named).is_err(), "{name:?}");
    }
}

#[test]
fn the_environment_is_the_images_with_home_and_user_and_what_was_asked() {
    let image = [
        ("PATH".to_owned(), OsString::from("/opt/x/bin")),
        ("HOME".to_owned(), OsString::from("/root")),
    ];
    let base = Base::new(
        image.into(),
        user_in("root:x:0:0::/:\nada:x:1000:1000::/:\n", 1000),
    );
    let mut spec = spec(&["x"]);
    spec.tty = true;
    spec.environment = [("A".to_owned(), "1".to_owned())].into();
    let environment = base.with(&spec);
    let get = |name: &str| environment.get(name).cloned().unwrap();
    assert_eq!(get("PATH"), "/opt/x/bin");
    assert_eq!(get("HOME"), WORKSPACE);
    assert_eq!(get("USER"), "ada");
    assert_eq!(get("TERM"), "xterm-256color");
    assert_eq!(get("A"), "1");
}
