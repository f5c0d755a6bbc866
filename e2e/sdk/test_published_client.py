"""The published Python client drives our gateway, unchanged. Run by `cargo xtask test`."""

import os
import time
import unittest
import uuid

import grpc
import openshell
from openshell import DeletionOutcome, GatewayError, Sandbox, SandboxClient, SandboxError, WorkspaceClient
from openshell._proto import openshell_pb2 as pb

DEFAULT = "default"
IMAGE = os.environ["OPENSHELL_SDK_IMAGE"]
PYTHON_IMAGE = os.environ["OPENSHELL_SDK_PYTHON_IMAGE"]


def a_name(prefix="sdk"):
    return f"{prefix}-{uuid.uuid4().hex[:8]}"


def a_spec(image=IMAGE, command=(), **more):
    return pb.SandboxSpec(template=pb.SandboxTemplate(image=image), command=list(command), **more)


class WithClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.client = SandboxClient.from_active_cluster()
        cls.addClassCleanup(cls.client.close)

    def assert_refused(self, code, call):
        with self.assertRaises(GatewayError) as caught:
            call()
        self.assertEqual(caught.exception.code(), code, caught.exception.details())
        self.assertTrue(caught.exception.details(), "an error must say something")
        return caught.exception


class ASandboxThatIsThere(WithClient):
    """Everything that leaves the sandbox as it is, on one sandbox."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.name = a_name("there")
        cls.addClassCleanup(cls.client.delete, cls.name, workspace=DEFAULT, allow_missing=True)
        cls.made = cls.client.create(
            workspace=DEFAULT, name=cls.name, labels={"team": "blue"}, spec=a_spec(environment={"FROM_SPEC": "yes"})
        )
        cls.ready = cls.client.wait_ready(cls.name, workspace=DEFAULT, timeout_seconds=60)

    def exec(self, command, **more):
        return self.client.exec(self.name, command, workspace=DEFAULT, **more)

    def test_health_says_which_version_serves(self):
        health = self.client.health()
        self.assertEqual(health.status, pb.SERVICE_STATUS_HEALTHY)
        self.assertTrue(health.version)

    def test_create_answers_with_name_id_and_labels(self):
        self.assertEqual(self.made.name, self.name)
        self.assertEqual(self.made.workspace, DEFAULT)
        self.assertTrue(self.made.id)
        self.assertEqual(dict(self.made.labels), {"team": "blue"})

    def test_ready_is_seen_with_its_condition(self):
        self.assertEqual(self.ready.phase, pb.SANDBOX_PHASE_READY)
        conditions = {condition.type: condition for condition in self.ready.conditions}
        self.assertEqual(conditions["Ready"].status, "True")
        self.assertIsNotNone(self.ready.status.main_process_started_at_ms)
        self.assertEqual(self.ready.status.restart_count, 0)

    def test_get_finds_it_by_name(self):
        self.assertEqual(self.client.get(self.name, workspace=DEFAULT).id, self.made.id)

    def test_exec_gives_stdout_stderr_and_the_exit_code(self):
        result = self.exec(["sh", "-c", "echo out; echo err >&2; exit 7"])
        self.assertEqual((result.stdout, result.stderr, result.exit_code), ("out\n", "err\n", 7))

    def test_exec_passes_arguments_as_they_are(self):
        words = ["a b", "", "$HOME", "'\"", "*", "-x", "\u00e4\n"]
        result = self.exec(["printf", "[%s]", *words])
        self.assertEqual(result.stdout, "".join(f"[{word}]" for word in words))

    def test_exec_without_a_login_shell_runs_the_program_itself(self):
        result = self.exec(["env"], no_login_shell=True)
        self.assertEqual(result.exit_code, 0)
        self.assertIn("FROM_SPEC=yes", result.stdout.splitlines())

    def test_exec_takes_environment_and_working_directory(self):
        result = self.exec(["sh", "-c", "echo $FROM_CALL; pwd"], env={"FROM_CALL": "set"}, workdir="/tmp")
        self.assertEqual(result.stdout, "set\n/tmp\n")

    def test_exec_sends_stdin_and_its_end(self):
        self.assertEqual(self.exec(["cat"], stdin=b"line one\nline two").stdout, "line one\nline two")

    def test_a_large_stdin_arrives_whole(self):
        sent = bytes(range(256)) * 4096
        result = self.exec(["wc", "-c"], stdin=sent)
        self.assertEqual(result.stdout.strip(), str(len(sent)))

    def test_exec_stops_at_its_timeout(self):
        started = time.monotonic()
        result = self.exec(["sleep", "60"], timeout_seconds=1)
        self.assertEqual(result.exit_code, 124)
        self.assertLess(time.monotonic() - started, 8)

    def test_a_missing_program_is_127(self):
        self.assertEqual(self.exec(["no-such-program"]).exit_code, 127)
        self.assertEqual(self.exec(["no-such-program"], no_login_shell=True).exit_code, 127)

    def test_exec_stream_delivers_while_the_command_runs(self):
        items = self.client.exec_stream(self.name, ["sh", "-c", "echo first; sleep 1; echo second"], workspace=DEFAULT)
        first = next(items)
        seen = time.monotonic()
        rest = list(items)
        self.assertEqual((first.stream, first.data), ("stdout", b"first\n"))
        self.assertGreater(time.monotonic() - seen, 0.5, "the first chunk came with the last")
        self.assertEqual(rest[-1].exit_code, 0)
        self.assertEqual(rest[-1].stdout, "first\nsecond\n")

    def test_a_session_speaks_for_its_sandbox(self):
        session = self.client.get_session(self.name, workspace=DEFAULT)
        self.assertEqual(session.id, self.made.id)
        self.assertEqual(session.exec(["echo", "hello"]).stdout, "hello\n")

    def test_a_taken_name_is_already_exists(self):
        self.assert_refused(
            grpc.StatusCode.ALREADY_EXISTS,
            lambda: self.client.create(workspace=DEFAULT, name=self.name, spec=a_spec()),
        )


class TheLifeOfASandbox(WithClient):
    def test_it_is_stopped_started_and_deleted_and_keeps_its_files(self):
        client, name = self.client, a_name("life")
        session = client.create_session(workspace=DEFAULT, name=name, spec=a_spec(command=["sleep", "1000000"]))
        self.addCleanup(client.delete, name, workspace=DEFAULT, allow_missing=True)
        client.wait_ready(name, workspace=DEFAULT, timeout_seconds=60)
        session.exec(["sh", "-c", "echo kept > /sandbox/file"])

        session.stop()
        client.wait_stopped(name, workspace=DEFAULT, timeout_seconds=60)
        self.assert_refused(grpc.StatusCode.FAILED_PRECONDITION, lambda: session.exec(["true"]))

        started = session.start()
        self.assertEqual(started.id, session.id)
        client.wait_ready(name, workspace=DEFAULT, timeout_seconds=60)
        self.assertEqual(session.exec(["cat", "/sandbox/file"]).stdout, "kept\n")

        gone = session.delete()
        self.assertIn(gone.outcome, (DeletionOutcome.ACCEPTED, DeletionOutcome.COMPLETED))
        client.wait_deleted(name, workspace=DEFAULT, expected_sandbox_id=session.id)
        self.assert_refused(grpc.StatusCode.NOT_FOUND, lambda: client.get(name, workspace=DEFAULT))
        again = client.delete(name, workspace=DEFAULT, allow_missing=True)
        self.assertEqual(again.outcome, DeletionOutcome.ALREADY_ABSENT)

    def test_a_main_process_that_ends_well_is_completed_with_its_exit_code(self):
        name = a_name("done")
        self.client.create(workspace=DEFAULT, name=name, spec=a_spec(command=["true"]))
        self.addCleanup(self.client.delete, name, workspace=DEFAULT, allow_missing=True)
        deadline = time.monotonic() + 60
        while (seen := self.client.get(name, workspace=DEFAULT)).phase != pb.SANDBOX_PHASE_COMPLETED:
            self.assertLess(time.monotonic(), deadline, f"phase {seen.phase}")
            self.assertNotEqual(seen.phase, pb.SANDBOX_PHASE_ERROR, seen.conditions)
            time.sleep(0.1)
        self.assertEqual(seen.status.exit_code, 0)

    def test_a_main_process_that_fails_is_an_error_that_says_so(self):
        name = a_name("fails")
        self.client.create(workspace=DEFAULT, name=name, spec=a_spec(command=["sh", "-c", "exit 3"]))
        self.addCleanup(self.client.delete, name, workspace=DEFAULT, allow_missing=True)
        deadline = time.monotonic() + 60
        while (seen := self.client.get(name, workspace=DEFAULT)).phase != pb.SANDBOX_PHASE_ERROR:
            self.assertLess(time.monotonic(), deadline, f"phase {seen.phase}")
            time.sleep(0.1)
        self.assertEqual(seen.status.exit_code, 3)
        self.assertEqual(seen.conditions[0].reason, "MainProcessFailed")

    def test_the_context_manager_deletes_what_it_made(self):
        with Sandbox(workspace=DEFAULT, name=a_name("with"), spec=a_spec()) as sandbox:
            name = sandbox.sandbox.name
            self.assertEqual(sandbox.exec(["echo", "inside"]).stdout, "inside\n")
        self.client.wait_deleted(name, workspace=DEFAULT)

    def test_a_python_function_runs_in_a_sandbox_that_has_python(self):
        name = a_name("python")
        self.client.create(workspace=DEFAULT, name=name, spec=a_spec(PYTHON_IMAGE))
        self.addCleanup(self.client.delete, name, workspace=DEFAULT, allow_missing=True)
        self.client.wait_ready(name, workspace=DEFAULT, timeout_seconds=60)
        result = self.client.exec_python(name, lambda a, b: a * b, workspace=DEFAULT, args=(6,), kwargs={"b": 7})
        self.assertEqual((result.stdout, result.exit_code), ("42\n", 0), result.stderr)


class Lists(WithClient):
    """Over sandboxes in a workspace of its own."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.workspace = a_name("lists")
        workspaces = WorkspaceClient.from_sandbox_client(cls.client)
        workspaces.create(cls.workspace)
        cls.addClassCleanup(workspaces.delete, cls.workspace, allow_missing=True)
        cls.names = sorted(a_name("item") for _ in range(3))
        for index, name in enumerate(cls.names):
            labels = {"parity": "odd" if index % 2 else "even"}
            cls.client.create(workspace=cls.workspace, name=name, labels=labels, spec=a_spec())
        cls.addClassCleanup(cls.remove_all)

    @classmethod
    def remove_all(cls):
        for name in cls.names:
            cls.client.delete(name, workspace=cls.workspace, allow_missing=True)
        for name in cls.names:
            cls.client.wait_deleted(name, workspace=cls.workspace)

    def test_pages_hold_everything_once(self):
        pages = list(self.client.list(workspace=self.workspace, page_size=2))
        self.assertEqual([len(page.items) for page in pages], [2, 1])
        self.assertEqual(sorted(item.name for page in pages for item in page.items), self.names)

    def test_a_label_selector_chooses(self):
        found = self.client.list_all(workspace=self.workspace, label_selector="parity=even")
        self.assertEqual(sorted(item.name for item in found), [self.names[0], self.names[2]])

    def test_all_workspaces_are_listed_together(self):
        found = {item.name for item in self.client.list_all_for_all_workspaces()}
        self.assertLessEqual(set(self.names), found)
        self.assertEqual(self.client.list_all(workspace=DEFAULT, label_selector="parity=even"), [])

    def test_a_page_token_that_we_never_gave_is_refused(self):
        self.assert_refused(
            grpc.StatusCode.INVALID_ARGUMENT,
            lambda: next(self.client.list(workspace=self.workspace, page_token="not-ours")),
        )


class Templates(WithClient):
    def test_a_template_is_made_listed_used_and_deleted(self):
        templates, name = self.client.sandbox_templates(), a_name("template")
        made = templates.create(
            workspace=DEFAULT, name=name, image=IMAGE, labels={"kind": "test"},
            environment={"FROM_TEMPLATE": "yes"}, cpu="500m", memory="64Mi",
        )  # fmt: skip
        self.addCleanup(templates.delete, name, workspace=DEFAULT, allow_missing=True)
        self.assertEqual(made.metadata.name, name)
        self.assertEqual(templates.get(name, workspace=DEFAULT).spec.workload.image, IMAGE)
        listed = templates.list_all(workspace=DEFAULT, label_selector="kind=test")
        self.assertEqual([template.metadata.name for template in listed], [name])

        sandbox = a_name("from")
        created = self.client.create_from_template(workspace=DEFAULT, workload_template=name, name=sandbox)
        self.addCleanup(self.client.delete, sandbox, workspace=DEFAULT, allow_missing=True)
        self.assertEqual(created.created_from_workload_template.name, name)
        self.client.wait_ready(sandbox, workspace=DEFAULT, timeout_seconds=60)
        result = self.client.exec(sandbox, ["env"], workspace=DEFAULT)
        self.assertIn("FROM_TEMPLATE=yes", result.stdout.splitlines())

        self.assertIn(
            templates.delete(name, workspace=DEFAULT).outcome, (DeletionOutcome.COMPLETED, DeletionOutcome.ACCEPTED)
        )
        self.assert_refused(grpc.StatusCode.NOT_FOUND, lambda: templates.get(name, workspace=DEFAULT))


class Workspaces(WithClient):
    def test_default_is_always_there(self):
        workspaces = WorkspaceClient.from_sandbox_client(self.client)
        self.assertEqual(workspaces.get(DEFAULT).name, DEFAULT)

    def test_one_is_made_listed_and_deleted(self):
        workspaces, name = WorkspaceClient.from_sandbox_client(self.client), a_name("space")
        made = workspaces.create(name, labels={"kind": "test"})
        self.addCleanup(workspaces.delete, name, allow_missing=True)
        self.assertEqual((made.name, made.labels), (name, {"kind": "test"}))
        self.assertIn(name, [workspace.name for workspace in workspaces.list_all()])
        workspaces.delete(name)
        self.assert_refused(grpc.StatusCode.NOT_FOUND, lambda: workspaces.get(name))


class Errors(WithClient):
    def test_an_unknown_sandbox_is_not_found(self):
        for call in (self.client.get, self.client.stop, self.client.start, self.client.delete):
            self.assert_refused(grpc.StatusCode.NOT_FOUND, lambda call=call: call("nobody", workspace=DEFAULT))

    def test_an_unknown_workspace_is_not_found(self):
        self.assert_refused(
            grpc.StatusCode.NOT_FOUND, lambda: self.client.create(workspace="nowhere", spec=a_spec())
        )

    def test_a_bad_name_is_an_invalid_argument_that_names_the_field(self):
        for name in ("UPPER", "-dash", "x" * 41, "a b"):
            error = self.assert_refused(
                grpc.StatusCode.INVALID_ARGUMENT,
                lambda name=name: self.client.create(workspace=DEFAULT, name=name, spec=a_spec()),
            )
            self.assertIn("name", [violation.field for violation in error.field_violations])
        self.assertEqual(self.client.list_all(workspace=DEFAULT, label_selector="no=one"), [])

    def test_an_unknown_image_ends_in_error_and_can_be_deleted(self):
        name = a_name("image")
        self.client.create(workspace=DEFAULT, name=name, spec=a_spec("localhost:1/no/such:image"))
        self.addCleanup(self.client.delete, name, workspace=DEFAULT, allow_missing=True)
        with self.assertRaises(SandboxError):
            self.client.wait_ready(name, workspace=DEFAULT, timeout_seconds=60)
        seen = self.client.get(name, workspace=DEFAULT)
        self.assertEqual(seen.conditions[0].reason, "ImagePullFailed")
        self.client.delete(name, workspace=DEFAULT)
        self.client.wait_deleted(name, workspace=DEFAULT)

    def test_what_is_not_built_yet_says_so(self):
        providers = self.client.providers()
        self.assert_refused(
            grpc.StatusCode.UNIMPLEMENTED, lambda: providers.get_credentials("any", ["KEY"], workspace=DEFAULT)
        )


def main():
    """Ends with the line that `cargo xtask test` counts."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(__import__("__main__"))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    failed = len(result.failures) + len(result.errors)
    print(f"sdk: {result.testsRun - failed} passed, {failed} failed", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    print(f"client: openshell {openshell.__version__}", flush=True)
    raise SystemExit(main())
