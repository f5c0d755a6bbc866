//! The command tree as a whole.

use clap::CommandFactory;
use clap::error::ErrorKind;

use super::*;

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(line.split_whitespace())
}

#[test]
fn the_tree_is_sound() {
    Cli::command().debug_assert();
}

#[test]
fn what_users_type_is_understood() {
    for line in [
        "openshell status -o json",
        "openshell sb ls -o name",
        "openshell sandbox list --selector a=b --watch",
        "openshell sandbox create --name a --from img --restart-policy on-failure --env A=B --label c=d --cpu 500m --memory 1Gi --detach -o json -- sh -c true",
        "openshell sandbox create --no-keep --no-tty --no-auto-providers -- true",
        "openshell sandbox exec a -- ls -l",
        "openshell sandbox exec -n a --workdir /tmp --env A=1 --timeout 2.5 --no-login-shell -- ls",
        "openshell sandbox rm a b --no-wait",
        "openshell sandbox delete a --wait=false",
        "openshell sandbox delete --all --yes",
        "openshell sandbox wait a --for Ready --timeout 5",
        "openshell sandbox events a --follow",
        "openshell logs a --tail --since 5m --source sandbox",
        "openshell forward start 8080:80 a -d",
        "openshell -g other --workspace team sandbox get a -o yaml",
        "openshell doctor check",
        "openshell gateway add https://127.0.0.1:1 --ca a --cert b --key c",
        "openshell workspace create team",
    ] {
        if let Err(e) = parse(line) {
            panic!("{line}: {e}");
        }
    }
}

#[test]
fn what_cannot_be_meant_is_a_usage_error() {
    for line in [
        "openshell sandbox exec a --",
        "openshell sandbox exec -- ls",
        "openshell sandbox exec a -n b -- ls",
        "openshell sandbox create --tty --no-tty",
        "openshell sandbox create --cpu -1",
        "openshell sandbox create --cpu 0",
        "openshell sandbox create --memory lots",
        "openshell sandbox create --env =x",
        "openshell sandbox create --template t --from i",
        "openshell sandbox create -o json -- true",
        "openshell sandbox delete",
        "openshell sandbox delete a --all",
        "openshell sandbox exec a --timeout 0 -- ls",
        "openshell forward start 0 a",
        "openshell logs a --since yesterday",
        "openshell gateway add https://h --ca x",
    ] {
        let error = parse(line)
            .err()
            .unwrap_or_else(|| panic!("{line} was accepted"));
        assert_eq!(error.exit_code(), 2, "{line}");
        assert_ne!(error.kind(), ErrorKind::DisplayHelp, "{line}");
    }
}

#[test]
fn every_command_that_does_something_has_examples() {
    fn visit(command: &clap::Command, path: &str) {
        let path = format!("{path} {}", command.get_name());
        let has = command
            .get_after_help()
            .is_some_and(|h| h.to_string().contains("Examples:"));
        let leaf = command.get_subcommands().next().is_none();
        assert!(
            !leaf || command.is_hide_set() || has,
            "{path} has no examples"
        );
        command.get_subcommands().for_each(|c| visit(c, &path));
    }
    visit(&Cli::command(), "");
}

/// A value that a required argument takes.
fn sample(arg: &clap::Arg) -> &'static str {
    match arg.get_id().as_str() {
        "port" | "ports" => "8080",
        "url" | "endpoint" => "https://127.0.0.1:1",
        "phase" | "for" | "target" => "Ready",
        "shell" => "bash",
        _ => "x1",
    }
}

fn leaves(command: &clap::Command, path: &[String], found: &mut Vec<Vec<String>>) {
    let mut line = path.to_vec();
    line.push(command.get_name().to_owned());
    if command.has_subcommands() {
        for inner in command.get_subcommands().filter(|c| c.get_name() != "help") {
            leaves(inner, &line, found);
        }
        return;
    }
    for arg in command.get_arguments().filter(|a| a.is_required_set()) {
        if let Some(long) = arg.get_long() {
            line.push(format!("--{long}"));
        }
        if arg.is_last_set() {
            line.push("--".to_owned());
        }
        line.push(sample(arg).to_owned());
    }
    found.push(line);
}

#[test]
fn every_command_is_understood_with_what_it_requires_and_nothing_else() {
    let mut found = Vec::new();
    leaves(&Cli::command(), &[], &mut found);
    assert!(found.len() > 30, "{found:?}");
    for line in found {
        match Cli::try_parse_from(&line) {
            Ok(_) => {}
            // One of two, as for the name of an exec.
            Err(e) if e.kind() == ErrorKind::MissingRequiredArgument => {}
            Err(e) => panic!("{}: {e}", line.join(" ")),
        }
    }
}
