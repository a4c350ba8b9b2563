"""The suite of the protocol's authors passes, but for what its own server alone can pass."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import httpx
import pytest

from tests.processes.gateway import GatewayProcess
from tests.sdk.workshop import node_modules, output_of, tool

NPM = Path(__file__).parent / "npm"

OF_ITS_OWN_SERVER = (
    *("tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-error"),
    *("tools-call-embedded-resource", "tools-call-mixed-content", "tools-call-with-logging"),
    *("tools-call-with-progress", "tools-call-sampling", "tools-call-elicitation"),
    *("resources-read-text", "resources-read-binary", "resources-templates-read"),
    *("elicitation-", "input-required-result-", "json-schema-2020-12"),
    "http-custom-header-server-validation",
)
"""Scenarios that call a tool, or read a resource, of the server that the suite was made with."""

NOT_OFFERED = (
    "prompts-",
    "completion-",
    "logging-",
    "resources-subscribe",
    "resources-unsub",
    "tasks-",
)
"""Scenarios of parts of the protocol that are optional, and are not declared here."""

OF_SINGLE_CHECKS = {
    "server-stateless": {  # "Not testable": they call such tools, too
        "sep-2575-server-rejects-undeclared-capability",
        "sep-2575-missing-capability-http-400",
        "sep-2575-http-server-no-independent-requests-on-stream",
        "sep-2575-server-no-log-without-loglevel",
    },
    "caching": {"sep-2549-prompts-list-caching-hints"},  # there are no prompts
    "server-sse-multiple-streams": {"server-sse-multiple-streams-session"},  # and no sessions
}

PASSED = {"2025-11-25": 35, "2026-07-28": 102}
"""Checks that pass, by revision of the protocol."""


def checks_in(folder: Path) -> Mapping[str, list[dict[str, str]]]:
    """Return the checks of each scenario that was run."""
    found = {}
    for file in sorted(folder.glob("*/checks.json")):
        scenario = file.parent.name.removeprefix("server-").rpartition("-20")[0]
        found[scenario] = json.loads(file.read_text())
    return found


@pytest.mark.parametrize("revision", PASSED)
async def test_the_suite_passes(revision: str, tmp_path: Path) -> None:
    program = node_modules(NPM) / "@modelcontextprotocol/conformance/dist/index.js"
    which = ["--requirements", revision] if revision > "2026" else ["--spec-version", revision]
    gateway = GatewayProcess.started(":memory:")
    try:
        async with httpx.AsyncClient(base_url=gateway.url) as http:
            await http.post("/v1/streams/orders/entries", json={"fields": {"sku": "42"}})
        node = f'"$0" --import ./old_node.mjs {program} server "$@" || true'
        words = ("--url", f"{gateway.url}/mcp", "--output-dir", str(tmp_path), *which)
        await output_of("sh", "-c", node, tool("node"), *words, folder=NPM)
    finally:
        gateway.terminate()
    statuses: Counter[str] = Counter()
    wrong = []
    for scenario, checks in checks_in(tmp_path).items():
        for check in checks:
            statuses[check["status"]] += 1
            is_for_others = scenario.startswith((*OF_ITS_OWN_SERVER, *NOT_OFFERED))
            is_expected = is_for_others or check["id"] in OF_SINGLE_CHECKS.get(scenario, ())
            if check["status"] in ("FAILURE", "WARNING") and not is_expected:
                wrong.append((scenario, check["id"], check.get("errorMessage")))
    assert wrong == []
    assert statuses["SUCCESS"] == PASSED[revision]
