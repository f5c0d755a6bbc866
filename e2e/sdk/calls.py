"""Times single calls of the published client: `calls.py exec NAME RUNS | list RUNS | fill RECORDS`."""

import json
import sys
import time

from openshell import SandboxClient
from openshell._proto import openshell_pb2 as pb

DEFAULT = "default"


def timed(runs, call):
    call()
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        call()
        times.append((time.perf_counter() - started) * 1000)
    return times


def exec_true(client, name, runs):
    def call():
        result = client.exec(name, ["true"], workspace=DEFAULT, no_login_shell=True)
        assert result.exit_code == 0, result

    return timed(int(runs), call)


def list_all(client, runs):
    def call():
        page = next(client.list(workspace=DEFAULT, page_size=1000))
        assert len(page.items) == 1000, len(page.items)

    return timed(int(runs), call)


def fill(client, records):
    spec = pb.SandboxSpec(template=pb.SandboxTemplate(image="openshell-dev/absent:1"), command=["true"])
    for index in range(int(records)):
        client.create(workspace=DEFAULT, name=f"record-{index}", labels={"kind": "record"}, spec=spec)
    return []


if __name__ == "__main__":
    measure = {"exec": exec_true, "list": list_all, "fill": fill}[sys.argv[1]]
    with SandboxClient.from_active_cluster() as client:
        print(json.dumps(measure(client, *sys.argv[2:])))
