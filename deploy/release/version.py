"""The version of a release, which stands in several files, for tools of several languages."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

from deploy.release.processes import NotReleased

_PACKAGES = Path("clients", "typescript")
_IMAGE = re.compile(r"^ *image: headgate:(\S+)$", re.MULTILINE)
_CHART = re.compile(r'^(?:appV|v)ersion: "?([^"\n]+)"?$', re.MULTILINE)
_LABEL = re.compile(r'org\.opencontainers\.image\.version="([^"]*)"')


def version_of(folder: Path) -> str:
    """Return the version of the sources in a folder; all files must have the same."""
    version: str = tomllib.loads((folder / "pyproject.toml").read_text("utf-8"))["project"][
        "version"
    ]
    others = [f"{place} has {other}" for place, other in _copies(folder) if other != version]
    if others:
        raise NotReleased(f"pyproject.toml has the version {version}, but {', '.join(others)}.")
    return version


def _copies(folder: Path) -> Iterator[tuple[str, object]]:
    for name in ("client", "react"):
        place = _PACKAGES / name / "package.json"
        package = json.loads((folder / place).read_text("utf-8"))
        yield str(place), package["version"]
        for peer, version in package.get("peerDependencies", {}).items():
            if peer.startswith("@headgate/"):
                yield f"{peer} in {place}", version
    lock = _PACKAGES / "package-lock.json"
    locked = json.loads((folder / lock).read_text("utf-8"))["packages"]
    for name in ("client", "react"):
        yield f"{name} in {lock}", locked[name]["version"]
    for version in _LABEL.findall((folder / "Dockerfile").read_text("utf-8")):
        yield "Dockerfile", version
    chart = Path("deploy", "helm", "headgate", "Chart.yaml")
    for version in _CHART.findall((folder / chart).read_text("utf-8")):
        yield str(chart), version
    for path in sorted((folder / "deploy" / "kubernetes").rglob("*.yaml")):
        for version in _IMAGE.findall(path.read_text("utf-8")):
            yield str(path.relative_to(folder)), version
