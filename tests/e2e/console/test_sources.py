"""The sources of the console: their types, their values, and what they are built with."""

import json

from console.bundle import HERE, install, npm


def test_types_are_right_and_values_are_what_they_should_be(console_bundle: None) -> None:
    install()
    npm("run", "types")
    npm("run", "check")
    npm("test")


def test_the_lock_file_names_no_registry() -> None:
    lock = json.loads((HERE / "package-lock.json").read_text("utf-8"))
    assert not [name for name, package in lock["packages"].items() if "resolved" in package]
