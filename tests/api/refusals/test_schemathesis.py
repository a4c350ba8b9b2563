"""The gateway against its own OpenAPI document, with generated requests: no 5xx, no surprise."""

import asyncio
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from tests.api.auth.secured import secured
from tests.api.refusals import valid_requests

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)

KNOWN_NAMES = """
[parameters]
stream = "orders"
group = "billing"
consumer = "worker"
"""
"""Names that are there, so that the requests get past "not found"."""

PARTS = (
    "--exclude-tag=Events",  # they do not end; test_events reads them
    "--exclude-operation-id=followGatewayHistory",  # likewise; test_history reads it
    "--exclude-operation-id=followChannel",  # likewise; test_channels reads it
    "--exclude-operation-id=stageChunk",  # it cannot make Arrow; test_bulk can
)
QUICK, LONG = "--phases=coverage", "--max-examples=100"
VALID = "--mode=positive", "--phases=coverage,fuzzing", "--max-examples=1000", "--max-time=600"
WITH_A_KEY, WITHOUT = True, False

ROOT = Path(__file__).parents[3]
HOOKS = "tests.api.refusals.valid_requests"


@pytest.mark.parametrize(
    ("form", "names", "has_key"),
    [
        (QUICK, KNOWN_NAMES, WITH_A_KEY),
        pytest.param(LONG, KNOWN_NAMES, WITH_A_KEY, marks=pytest.mark.long),
        pytest.param(LONG, "", WITH_A_KEY, marks=pytest.mark.long),
        pytest.param(LONG, KNOWN_NAMES, WITHOUT, marks=pytest.mark.long),
    ],
)
async def test_no_generated_request_finds_a_5xx_or_an_undocumented_answer(
    form: str, names: str, has_key: bool, tmp_path: Path
) -> None:
    await _explore(tmp_path, CHECKS, form, names=names, has_key=has_key)


@pytest.mark.long
async def test_what_the_document_allows_is_refused_only_for_what_no_schema_can_tell(
    tmp_path: Path,
) -> None:
    await _explore(tmp_path, [valid_requests.CHECK], *VALID)


async def _explore(
    tmp_path: Path,
    checks: Sequence[str],
    *form: str,
    names: str = KNOWN_NAMES,
    has_key: bool = True,
) -> None:
    config, push_key = tmp_path / "schemathesis.toml", tmp_path / "push.key"
    config.write_text(names)
    push_key.write_bytes(Fernet.generate_key())
    # With these no operation is without an ability.
    places = {"data_dir": tmp_path / "data", "bucket": (tmp_path / "bucket").as_uri()}
    async with secured(tmp_path, wait_ms_max=50, push_key_file=push_key, **places) as gateway:
        live = gateway.live
        await live.create_group("orders", "billing")
        await live.append("orders", *"abcdef")
        await live.read_group("orders", "billing", "worker", limit=3)
        options = []
        if has_key:
            options = [f"--header=Authorization: {gateway.admin.headers['Authorization']}"]
            checks = [*checks, "ignored_auth"]
        program = Path(sys.executable).with_name("schemathesis")
        process = await asyncio.create_subprocess_exec(
            *(program, "--no-color", f"--config-file={config}", "run", f"{live.url}/openapi.json"),
            *(*PARTS, *options, *form, f"--checks={','.join(checks)}"),
            *("--seed=1", "--continue-on-failure"),
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT), "SCHEMATHESIS_HOOKS": HOOKS},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        output = (await process.communicate())[0].decode()
    assert process.returncode == 0, output
    assert "Tested: 105" in output, output
