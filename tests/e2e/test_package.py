"""The package as it is published: one name at the top, the same from sources as from the folder."""

import os
import subprocess
import sys
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMMAND_S_MAX = 120.0
BUILD = [sys.executable, "-m", "build", "--no-isolation", "--outdir"]
INSTALL = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]

NAMES_OF_USERS = ["app", "client", "console", "engine", "pipeline"]
"""What folders of our users are called, too."""


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


def test_the_archive_of_sources_makes_the_same_wheel(wheel: Path, tmp_path: Path) -> None:
    run(*BUILD, tmp_path, "--wheel", ROOT)
    [direct] = tmp_path.glob("*.whl")
    assert contents(wheel) == contents(direct)


def contents(wheel: Path) -> dict[str, int]:
    """Return the checksum of each file."""
    with zipfile.ZipFile(wheel) as archive:
        return {file.filename: file.CRC for file in archive.infolist()}


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
