"""The gateway against its own OpenAPI document, with generated requests: no 5xx, no surprise."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from cryptography.fernet import Fernet

from headgate.app.settings import Settings
from tests.api.auth.secured import secured
from tests.api.conftest import Live, running

EXAMPLES = os.environ.get("HEADGATE_TEST_EXAMPLES", "6")
"""Of each operation; by hand: 100."""

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
)

# Names that are there, so that the requests get past "not found".
KNOWN_NAMES = """
[parameters]
stream = "orders"
group = "billing"
consumer = "worker"
"""


async def schemathesis(live: Live, config: Path, *options: str) -> tuple[int | None, str]:
    """Run schemathesis against a live gateway; returns its exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        str(Path(sys.executable).with_name("schemathesis")),
        "--no-color",
        "--config-file",
        str(config),
        "run",
        f"{live.url}/openapi.json",
        "--exclude-tag=Events",  # they do not end; test_events reads them
        "--exclude-operation-id=followGatewayHistory",  # likewise; test_history reads it
        "--exclude-operation-id=stageChunk",  # it cannot make Arrow; test_bulk can
        f"--max-examples={EXAMPLES}",
        "--seed=1",
        "--continue-on-failure",
        *options,
        cwd=config.parent,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output, _ = await process.communicate()
    return process.returncode, output.decode()


async def fill(live: Live) -> None:
    """Make the things that `KNOWN_NAMES` names."""
    await live.create_group("orders", "billing")
    await live.append("orders", *"abcdef")
    await live.read_group("orders", "billing", "worker", limit=3)


def chosen(tmp_path: Path) -> dict[str, Any]:
    """Return settings with which no operation is without an ability."""
    bucket = (tmp_path / "bucket").as_uri()
    key = tmp_path / "push.key"
    key.write_bytes(Fernet.generate_key())
    places = {"data_dir": tmp_path / "data", "bucket": bucket, "push_key_file": key}
    return {"wait_ms_max": 50, **places}


async def test_no_generated_request_finds_a_5xx_or_an_undocumented_answer(tmp_path: Path) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text("")
    async with running(Settings(**chosen(tmp_path))) as live:
        await fill(live)
        code, output = await schemathesis(live, config, f"--checks={','.join(CHECKS)}")

    assert code == 0, output
    assert "Tested: 71" in output, output


async def test_the_same_of_known_names_and_a_key_is_asked_for_where_the_document_says_so(
    tmp_path: Path,
) -> None:
    config = tmp_path / "schemathesis.toml"
    config.write_text(KNOWN_NAMES)
    checks = [*CHECKS, "ignored_auth"]
    async with secured(tmp_path, **chosen(tmp_path)) as gateway:
        key = gateway.admin.headers["Authorization"]
        gateway.live.http.headers["Authorization"] = key
        await fill(gateway.live)
        code, output = await schemathesis(
            gateway.live, config, f"--header=Authorization: {key}", f"--checks={','.join(checks)}"
        )
        assert code == 0, output
        assert "Tested: 71" in output, output

        # Without a key nothing of a request is looked at, so a few of each operation will do.
        code, output = await schemathesis(
            gateway.live, config, f"--checks={','.join(CHECKS)}", "--phases=fuzzing"
        )
        assert code == 0, output
        assert "Tested: 71" in output, output
