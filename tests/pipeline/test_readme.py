"""The way from nothing to a lake that the README shows is the way it goes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headgate.pipeline.java import find_java
from tests.pipeline.gateway import ROOT, Gateway
from tests.pipeline.java import SHORT_LIVED

PAGE = (ROOT / "pipeline" / "README.md").read_text("utf-8")
NOT_RUN = (". .venv", "pip install ")  # the environment of the test
RUN_S_MAX = 240.0


@pytest.fixture
def shell(tmp_path: Path, gateway: Gateway) -> dict[str, str]:
    """Variables of a shell with a `python` of this checkout, for jobs that know the gateway."""
    script = tmp_path / "bin" / "python"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    script.chmod(0o755)
    return {
        **os.environ,
        "HEADGATE_URL": gateway.url,
        "JAVA_HOME": str(find_java().home),
        "JAVA_TOOL_OPTIONS": SHORT_LIVED,
        "PATH": f"{script.parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}",
    }


def block(kind: str) -> str:
    """Return the first block of a kind."""
    match = re.search(rf"^```{kind}\n(.*?)^```$", PAGE, re.DOTALL | re.MULTILINE)
    assert match is not None
    return match[1]


def output_of(words: list[str], folder: Path, shell: dict[str, str]) -> str:
    done = subprocess.run(
        ["python", *words],
        cwd=folder,
        env=shell,
        capture_output=True,
        text=True,
        timeout=RUN_S_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_ten_lines_lead_to_a_lake_that_answers_questions(
    tmp_path: Path, shell: dict[str, str], gateway: Gateway
) -> None:
    script = block("sh").replace("localhost:8080", gateway.url.removeprefix("http://"))
    lines = [line for line in script.splitlines() if not line.startswith(NOT_RUN)]
    output = output_of(["-m", "tests.pipeline.in_turn", *lines], tmp_path, shell)
    assert gateway.http.get("/v1/streams/orders").json()["length"] == 0  # the lake has it
    assert re.search(r"_id +_time +_rescued +sku +price", output)
    assert re.search(r"a3 +3\.5", output)

    program = block("python").replace(
        '.format("headgate")', f'.format("headgate").option("url", "{gateway.url}")'
    )
    output = output_of(["-c", program], tmp_path, shell)
    assert set(re.findall(r"\|\s*(a\d)\|\s*([\d.]+)\|", output)) == {
        ("a1", "1.5"), ("a2", "2.5"), ("a3", "3.5"),
    }  # fmt: skip
