"""The documents of a release: its parts, its changes, and the checksums of its files."""

from __future__ import annotations

import hashlib
import re
import sys
from pathlib import Path

from deploy.release.processes import NotReleased, run
from deploy.release.tree import Tree

CHECKSUMS = "SHA256SUMS"

_BILL = ("-W", "ignore", "-m", "cyclonedx_py", "requirements", "--pyproject", "pyproject.toml")
_FORMAT = ("--output-reproducible", "--of", "JSON", "--validate")


def write_bill(tree: Tree, path: Path) -> None:
    """Write the bill of materials: the pinned packages that the image installs, as CycloneDX."""
    words = (*_BILL, *_FORMAT, "--output-file", path, "requirements.txt")
    run(sys.executable, *words, folder=tree.folder, variables=tree.variables)


def write_changes(tree: Tree, path: Path, version: str) -> None:
    """Write the changelog's section of a version."""
    changelog = (tree.folder / "CHANGELOG.md").read_text("utf-8")
    path.write_text(section_of(changelog, version), "utf-8")


def section_of(changelog: str, version: str) -> str:
    """Return the section of a version, with its heading.

    Raises:
        NotReleased: there is none.
    """
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
