"""The container image, as far as that can be told without a container engine.

The steps of the Dockerfile are taken in order in a folder that stands for the image's root, from
the files .dockerignore lets in, and its command is run as its user on a tree it cannot write to.

What this cannot show: that the base image exists, holds nothing else, and has what the steps call
(`install`, a shell); cgroups, namespaces and PID 1; that the process sees no other file of this
machine; the engine's own reading of the file (layers, caches, `VOLUME`, health intervals). The base
image's Python is the one the tests run with. Where the tests do not run as root, the image's user
is whoever runs them.
"""

import signal
import subprocess
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from deploy.local_cluster.server import free_ports
from tests.e2e.container import USER, Image, build, instructions, may_be
from tests.processes.gateway import ROOT

HEALTHY_S_MAX = 60.0


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    # Not pytest's folder: only its owner may look into that one.
    with tempfile.TemporaryDirectory() as place:
        Path(place).chmod(0o755)
        built = build(ROOT, Path(place))
        _write_protect(built.root, except_for=built.volumes)
        yield built
        subprocess.run(["chmod", "-R", "u+w", place], check=True)


def _write_protect(root: Path, *, except_for: list[str]) -> None:
    kept = {root / volume.lstrip("/") for volume in except_for}
    for path in [root, *root.rglob("*")]:
        if not path.is_symlink() and not any(path.is_relative_to(folder) for folder in kept):
            path.chmod(path.stat().st_mode & ~0o222)


@pytest.fixture
def settings() -> dict[str, str]:
    """The variables of an operator, given with -e: here, a port that is free on this machine."""
    [port] = free_ports(1)
    return {"HEADGATE_PORT": f"{port}", "HEADGATE_URL": f"http://127.0.0.1:{port}"}


@contextmanager
def _running(image: Image, settings: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run the gateway, and stop it as an engine would."""
    with image.popen(image.command, settings, stderr=subprocess.PIPE) as process:
        until = time.monotonic() + HEALTHY_S_MAX
        while image.exit_code(image.health, settings) != 0:  # as an engine would find out
            assert process.poll() is None, process.stderr.read() if process.stderr else ""
            assert time.monotonic() < until, "not healthy in time"
        yield process
        process.send_signal(signal.Signals[image.stop_signal])
        assert process.wait(30) == 0


def _client(image: Image, settings: dict[str, str]) -> httpx.Client:
    """Return a client with the key that the gateway has made at its first start."""
    place = image.root / "data" / "first-key"
    headers = {"Authorization": f"Bearer {place.read_text().strip()}"}
    return httpx.Client(base_url=settings["HEADGATE_URL"], headers=headers)


def _files(root: Path, *, except_for: str) -> set[Path]:
    data = root / except_for.lstrip("/")
    return {path for path in root.rglob("*") if not path.is_relative_to(data)}


def test_it_starts_keeps_its_data_and_stops_as_told(image: Image, settings: dict[str, str]) -> None:
    before = _files(image.root, except_for="/data")
    assert image.exit_code(image.health, settings) == 1, "nothing runs yet"

    with _running(image, settings) as process:
        if may_be(image):
            status = Path(f"/proc/{process.pid}/status").read_text()
            assert "\nUid:" + f"\t{USER}" * 4 in status
        with _client(image, settings) as client:
            appended = client.post("/v1/streams/orders/entries", json={"fields": {"sku": "42"}})
            assert client.post("/v1/admin/rewrite").status_code == 202
        assert appended.status_code == 201
    assert image.exit_code(image.health, settings) == 1

    with _running(image, settings), _client(image, settings) as client:
        read = client.get("/v1/streams/orders/entries", params={"after": "0"}).json()
        assert client.get("/docs").status_code == 200
    assert [entry["id"] for entry in read["entries"]] == [appended.json()["id"]]
    assert _files(image.root, except_for="/data") == before, "it wrote outside its volume"


def test_it_holds_the_gateway_and_nothing_that_installs(image: Image) -> None:
    assert image.user == USER
    assert image.volumes == ["/data"]
    assert {path.name for path in image.root.iterdir()} == {"bucket", "data", "keys", "venv"}
    installed = {path.name for path in (image.root / "venv").glob("lib/python*/site-packages/*")}
    assert "headgate" in installed
    assert not {"app", "engine", "pipeline"} & installed
    assert not {"pip", "setuptools", "tests", "pytest"} & installed
    assert not any(path.name == "__pycache__" for path in image.root.parent.glob("context/**/*"))


def test_its_labels_are_those_of_the_package(image: Image) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    names = {"title": "Headgate", "description": project["description"]}
    names |= {"version": project["version"], "licenses": project["license"]}
    assert image.labels == {f"org.opencontainers.image.{key}": text for key, text in names.items()}


def test_signals_reach_the_gateway_without_a_shell_between() -> None:
    instruction_of = dict(instructions((ROOT / "Dockerfile").read_text()))
    assert instruction_of["ENTRYPOINT"].startswith("[")
    assert instruction_of["CMD"].startswith("[")
    assert "CMD [" in instruction_of["HEALTHCHECK"]


def test_the_steps_run_as_root_and_the_gateway_does_not() -> None:
    names = [name for name, _ in instructions((ROOT / "Dockerfile").read_text())]
    assert "RUN" not in names[names.index("USER") :]
