"""The documents of a release: bill of materials, changes, and checksums."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import sys
from pathlib import Path
from typing import Any

from deploy.release.processes import NotReleased, run
from deploy.release.tree import Tree

CHECKSUMS = "SHA256SUMS"

_BILL = ("-W", "ignore", "-m", "cyclonedx_py", "requirements", "--pyproject", "pyproject.toml")
_FORMAT = ("--output-reproducible", "--of", "JSON", "--validate")
_LOCK = "console/package-lock.json"


def write_bill(tree: Tree, path: Path) -> None:
    """Write the bill of materials, as CycloneDX: pinned packages of image and console."""
    words = (*_BILL, *_FORMAT, "--output-file", path, "requirements.txt")
    run(sys.executable, *words, folder=tree.folder, variables=tree.variables)
    bill = json.loads(path.read_text("utf-8"))
    locked = json.loads((tree.folder / _LOCK).read_text("utf-8"))["packages"]
    bill["components"] += [
        _npm_component(place.removeprefix("node_modules/"), package)
        for place, package in sorted(locked.items())
        if place and "dev" not in package
    ]
    path.write_text(json.dumps(bill, indent=2) + "\n", "utf-8")


def _npm_component(name: str, package: dict[str, Any]) -> dict[str, Any]:
    url = f"pkg:npm/{name.replace('@', '%40')}@{package['version']}"
    checksum = base64.b64decode(package["integrity"].removeprefix("sha512-")).hex()
    return {
        "bom-ref": url,
        "hashes": [{"alg": "SHA-512", "content": checksum}],
        "licenses": [{"expression": package["license"]}],
        "name": name,
        "purl": url,
        "type": "library",
        "version": package["version"],
    }


def write_changes(tree: Tree, path: Path, version: str) -> None:
    changelog = (tree.folder / "CHANGELOG.md").read_text("utf-8")
    path.write_text(section_of(changelog, version), "utf-8")


def section_of(changelog: str, version: str) -> str:
    heading = rf"^## {re.escape(version)}(?= |$).*?(?=^## |\Z)"
    section = re.search(heading, changelog, re.MULTILINE | re.DOTALL)
    if section is None:
        raise NotReleased(f"CHANGELOG.md has no section of {version}.")
    return section[0].rstrip() + "\n"


def write_checksums(folder: Path) -> None:
    """Write the checksums of all files in a folder, as `sha256sum --check` reads them."""
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(folder.iterdir())
    ]
    (folder / CHECKSUMS).write_text("".join(lines), "utf-8")
