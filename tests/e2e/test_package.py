"""The package as it is published: one name at the top, the same from sources as from the folder."""

import importlib.metadata
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
COMMAND_S_MAX = 120.0
BUILD = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
INSTALL = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]

NAMES_OF_USERS = ["app", "client", "console", "engine", "pipeline"]
"""Names that folders of our users have, too."""


def run(*command: str | Path, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a command that must end well; returns what it printed."""
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S_MAX,
        cwd=cwd,
        env={**os.environ, **(env or {})},
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build an archive of the sources, and of that a wheel."""
    place = tmp_path_factory.mktemp("dist")
    run(*BUILD, place, ROOT)
    [wheel] = place.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Install the wheel; what it needs is there already."""
    place = tmp_path_factory.mktemp("site")
    run(*INSTALL, "--no-deps", "--target", place, wheel)
    return place


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make the project of a user whose folders have names that ours have."""
    place = tmp_path_factory.mktemp("project")
    for name in NAMES_OF_USERS:
        (place / name).mkdir()
        (place / name / "__init__.py").write_text("session = 'of the user'\n")
    return place


def test_nothing_but_headgate_stands_at_the_top(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        tops = {name.split("/")[0] for name in archive.namelist()}
    [about] = [top for top in tops if top.endswith(".dist-info")]
    assert tops == {"headgate", about}


@pytest.mark.parametrize("command", ["headgate", "headgate-pipeline"])
def test_commands_run_in_a_project_with_the_same_names(
    command: str, site: Path, project: Path
) -> None:
    path = {"PYTHONPATH": f"{project}{os.pathsep}{site}"}
    assert "0.1.0" in run(
        sys.executable, site / "bin" / command, "--version", cwd=project, env=path
    )


def test_a_project_with_the_same_names_imports_ours_and_its_own(site: Path, project: Path) -> None:
    program = (
        "import headgate.app.main, headgate.engine.engine\n"
        "from headgate.pipeline.session import session as ours\n"
        "from pipeline import session as own\n"
        "print(headgate.__file__, ours.__module__, own)\n"
    )
    path = {"PYTHONPATH": f"{project}{os.pathsep}{site}"}
    printed = run(sys.executable, "-c", program, cwd=project, env=path)
    place = site / "headgate" / "__init__.py"
    assert printed.strip() == f"{place} headgate.pipeline.session of the user"


# A worker: the package without the gateway's own packages


WORKER_BYTES_MAX = 25_000_000


@pytest.fixture(scope="module")
def worker(site: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a place with the wheel and what it needs without an extra, and nothing else."""
    place = tmp_path_factory.mktemp("worker")
    shutil.copytree(site, place, dirs_exist_ok=True)
    [own] = importlib.metadata.distributions(name="headgate", path=[str(site)])
    for distribution in needed(own):
        for file in distribution.files or []:
            source = Path(str(file.locate()))
            if ".." not in file.parts and source.suffix != ".pyc":
                (place / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, place / file)
    return place


def needed(own: importlib.metadata.Distribution) -> list[importlib.metadata.Distribution]:
    """Return the distributions installed with one, if no extra is asked for."""
    names, waiting = dict[str, importlib.metadata.Distribution](), [own]
    while waiting:
        for text in waiting.pop().requires or []:
            requirement = Requirement(text)
            name = canonicalize_name(requirement.name)
            is_asked = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
            if is_asked and name not in names:
                names[name] = importlib.metadata.distribution(name)
                waiting.append(names[name])
    return list(names.values())


def as_worker(place: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run Python with what stands in a place, and nothing else."""
    return subprocess.run(
        [sys.executable, "-S", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=COMMAND_S_MAX,
        env={"PYTHONPATH": str(place), "PATH": os.environ["PATH"]},
    )


def test_a_worker_is_small(worker: Path) -> None:
    files = [path for path in worker.rglob("*") if path.is_file() and path.suffix != ".pyc"]
    assert sum(path.stat().st_size for path in files) < WORKER_BYTES_MAX


def test_a_worker_has_the_client_and_the_commands(worker: Path) -> None:
    client = as_worker(worker, "-c", "import headgate; headgate.Client, headgate.AsyncClient")
    commands = as_worker(worker, "-m", "headgate.app.cli", "--help")
    append = as_worker(
        worker, "-m", "headgate.app.cli", "append", "a", "b=1", "--url", "http://127.0.0.1:1"
    )

    assert (client.returncode, client.stderr) == (0, "")
    assert (commands.returncode, commands.stderr) == (0, "")
    assert "Error: no gateway at http://127.0.0.1:1" in append.stderr


@pytest.mark.parametrize("words", [["serve", "--port", "0"], ["keys", "list"], ["openapi"]])
def test_a_worker_is_told_how_to_get_the_gateway(worker: Path, words: list[str]) -> None:
    ended = as_worker(worker, "-m", "headgate.app.cli", *words)

    assert (ended.returncode, ended.stdout) == (1, "")
    [line] = ended.stderr.splitlines()
    assert line.startswith(f"Error: `headgate {words[0]}` requires the gateway, but only its")
    assert line.endswith("Install the extra: pip install -e '.[server]'")
