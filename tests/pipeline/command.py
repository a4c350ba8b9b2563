"""`headgate-pipeline` run in the process of the tests, where its Spark is warm."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from headgate.pipeline.cli import main
from tests.pipeline.gateway import Gateway


@dataclass
class Command:
    """The command line, pointed at a gateway."""

    url: str

    def run(self, *words: str, code: int = 0) -> tuple[str, str]:
        """Run a job; returns what it said on standard output and on standard error."""
        done = CliRunner().invoke(main, [words[0], "--url", self.url, *words[1:]])
        assert done.exit_code == code, done.output
        assert "Traceback" not in done.output
        return done.stdout, done.stderr

    def rows(self, *words: str, code: int = 0) -> list[dict[str, Any]]:
        """Run a job; returns its answer."""
        out, _ = self.run(*words, "--json", code=code)
        parsed: list[dict[str, Any]] = json.loads(out)
        return parsed


@pytest.fixture
def command(gateway: Gateway, spark: SparkSession) -> Command:
    return Command(gateway.url)
