"""Makes a workload image with a Python interpreter, from the one that this test runs on: no registry is needed."""

import io
import os
import pathlib
import re
import subprocess
import sys
import sysconfig
import tarfile

LEFT_OUT = {"test", "tests", "__pycache__", "idlelib", "tkinter", "lib2to3", "ensurepip", "site-packages"}


def build(docker, base, tag):
    """Adds interpreter, standard library and cloudpickle to the base image's files and imports the whole."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        _copy_base(docker, base, tar)
        _add_interpreter(tar)
    command = [*docker, "import", "--change", "USER 1000:1000", "--change", "ENV PATH=/usr/bin:/bin", "-", tag]
    subprocess.run(command, input=archive.getvalue(), check=True, stdout=subprocess.DEVNULL, timeout=120)


def _copy_base(docker, base, tar):
    container = subprocess.run(
        [*docker, "create", base, "/bin/true"], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()
    try:
        exported = subprocess.run([*docker, "export", container], check=True, capture_output=True, timeout=60).stdout
    finally:
        subprocess.run([*docker, "rm", "-f", container], check=True, stdout=subprocess.DEVNULL, timeout=60)
    with tarfile.open(fileobj=io.BytesIO(exported)) as source:
        for member in source:
            tar.addfile(member, source.extractfile(member) if member.isreg() else None)


def _add_interpreter(tar):
    binary = os.path.realpath(sys.executable)
    library = pathlib.Path(sysconfig.get_path("stdlib"))
    tar.add(binary, "usr/bin/python", recursive=False)
    tar.add(library, str(library).lstrip("/"), filter=_wanted)
    import cloudpickle

    package = pathlib.Path(cloudpickle.__file__).parent
    tar.add(package, f"{str(library).lstrip('/')}/cloudpickle", filter=_wanted)
    added = set()
    loaded = [binary, *map(str, library.glob("lib-dynload/*.so"))]
    for needed in sorted({path for each in loaded for path in _shared_objects(each)}):
        if needed not in added:
            added.add(needed)
            tar.add(os.path.realpath(needed), needed.lstrip("/"), recursive=False)


def _wanted(member):
    return None if LEFT_OUT & set(pathlib.PurePath(member.name).parts) else member


def _shared_objects(path):
    listed = subprocess.run(["ldd", path], capture_output=True, text=True, timeout=30).stdout
    return re.findall(r"(/\S+) \(0x", listed)
