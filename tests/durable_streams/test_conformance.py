"""The suite of the protocol's authors passes as a whole, whatever keeps the streams."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.processes.gateway import GatewayProcess
from tests.sdk.workshop import node_modules, output_of

NPM = Path(__file__).parent / "npm"

SETTINGS: dict[str, object] = {
    "allowed_origins": "https://example.com",  # it asks as a page of there
    "push_allow": "127.0.0.0/8",  # it receives webhooks
    "wait_ms_max": 1000,  # two of its tests wait for the end of a long poll, and for 5 s at most
}


@pytest.mark.parametrize(
    "place",
    [
        "embedded",
        pytest.param("workers", marks=pytest.mark.long),
        pytest.param("valkey_9", marks=[pytest.mark.away, pytest.mark.long]),
    ],
)
async def test_the_suite_passes(place: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    settings = SETTINGS
    if place == "workers":
        settings = {**SETTINGS, "workers": 2}
    elif place != "embedded":
        settings = {**SETTINGS, "backend": request.getfixturevalue(place).url}
    report = tmp_path / "report.json"
    modules = node_modules(NPM)
    gateway = GatewayProcess.started(":memory:", settings)
    try:
        await output_of(
            modules / ".bin" / "vitest",
            *("run", "--reporter=dot", "--reporter=json", f"--outputFile={report}"),
            "--testTimeout=30000",  # other tests run beside it
            # One of its tests computes for so long that the gateway ends the connection, which the
            # next one uses then.
            "--retry=1",
            folder=NPM,
            variables={"GATEWAY_URL": gateway.url},
        )
    finally:
        gateway.terminate()
    assert json.loads(report.read_text())["numPassedTests"] == 338
