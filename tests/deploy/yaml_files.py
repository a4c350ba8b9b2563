"""YAML files: their documents, and what the schemas say of them."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from io import StringIO
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

BIN = Path(sys.executable).parent
SCHEMAS = {path.stem: path for path in (Path(__file__).parent / "schemas").glob("*.json")}
"""Of resources that Kubernetes itself does not know, by kind."""


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(list(map(str, words)), capture_output=True, text=True, check=False)


def documents_of(text: str) -> list[dict[str, Any]]:
    return [document for document in YAML(typ="safe", pure=True).load_all(text) if document]


def document_of(path: Path) -> dict[str, Any]:
    """Return the only document of a file."""
    [document] = documents_of(path.read_text())
    return document


def write_document(document: dict[str, Any], path: Path) -> Path:
    text = StringIO()
    YAML(typ="safe", pure=True).dump(document, text)
    path.write_text(text.getvalue())
    return path


def check_manifest(*paths: Path) -> subprocess.CompletedProcess[str]:
    return run(BIN / "kubernetes-validate", "--strict", *paths)


def faults_of(paths: Iterable[Path]) -> list[str]:
    """Return what is wrong with files of one resource each. Many at once are quicker."""
    by_kind: dict[str, list[Path]] = {}
    for path in paths:
        kind = document_of(path)["kind"]
        by_kind.setdefault(kind if kind in SCHEMAS else "", []).append(path)
    faults: list[str] = []
    known = by_kind.pop("", [])
    if known:
        outcome = check_manifest(*known)
        said = outcome.stdout + outcome.stderr
        # A kind without a schema is a warning, and no failure.
        if outcome.returncode or said.count(" passed for resource ") != len(known):
            faults.append(said)
    for kind, others in by_kind.items():
        outcome = run(BIN / "check-jsonschema", "--schemafile", SCHEMAS[kind], *others)
        if outcome.returncode:
            faults.append(outcome.stdout + outcome.stderr)
    return faults
