"""The pinned versions are versions that the package allows, on the systems that it names."""

import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent.parent
EXTRAS = {
    "requirements.txt": {"server", "arrow", "mcp"},
    "requirements-dev.txt": {
        *("server", "arrow", "mcp", "tables", "spark", "connect", "java", "cluster", "dev")
    },
}


def pins(file: str) -> dict[str, Requirement]:
    lines = (ROOT / file).read_text("utf-8").splitlines()
    pinned = [Requirement(line) for line in lines if line and line[0] not in " #"]
    return {pin.name: pin for pin in pinned}


@pytest.mark.parametrize("file", EXTRAS)
def test_each_requirement_is_pinned_with_its_marker(file: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    optional = project["optional-dependencies"]
    lines = [
        *project["dependencies"],
        *(line for extra in EXTRAS[file] for line in optional[extra]),
    ]
    pinned = pins(file)
    for requirement in map(Requirement, lines):
        pin = pinned[requirement.name.lower().replace("_", "-")]
        [version] = pin.specifier
        assert version.version in requirement.specifier, pin
        assert pin.marker == requirement.marker, f"{file}: {pin}"


def test_lock_files_name_no_address() -> None:
    found = [path for depth in range(4) for path in ROOT.glob("*/" * depth + "package-lock.json")]
    files = {path: path.read_text("utf-8") for path in found if "node_modules" not in path.parts}
    assert len(files) > 1
    assert [path for path, text in files.items() if "://" in text] == []
