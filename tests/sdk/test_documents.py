"""The committed documents keep the recommended rules of the linters that people use."""

import json
from pathlib import Path

import pytest

from tests.sdk.workshop import NPM, ROOT, npm_tool, output_of, tool

OPENAPI = ROOT / "openapi" / "openapi.json"
ASYNCAPI = ROOT / "openapi" / "asyncapi.json"


@pytest.mark.parametrize("document", [OPENAPI, ASYNCAPI], ids=lambda file: file.name)
async def test_redocly_has_nothing_to_say(document: Path) -> None:
    words = ("lint", document, "--config", "redocly.yaml", "--format", "json")
    variables = {"REDOCLY_SUPPRESS_UPDATE_NOTICE": "true", "REDOCLY_TELEMETRY": "off"}
    output = await output_of(npm_tool("redocly"), *words, folder=NPM, variables=variables)

    report, _ = json.JSONDecoder().raw_decode(output[output.index("{") :])
    assert report["totals"] == {"errors": 0, "warnings": 0, "ignored": 0}, output


@pytest.mark.parametrize("document", [OPENAPI, ASYNCAPI], ids=lambda file: file.name)
async def test_spectral_has_nothing_to_say(document: Path) -> None:
    words = ("lint", document, "--ruleset", "spectral.yaml", "--fail-severity", "hint")
    output = await output_of(npm_tool("spectral"), *words, folder=NPM)

    assert "No results with a severity of 'hint' or higher found!" in output


async def test_the_parser_of_asyncapi_has_nothing_to_say() -> None:
    npm_tool("tsc")  # its package is installed with all others
    output = await output_of(tool("node"), "parse-asyncapi.mjs", ASYNCAPI, folder=NPM)

    report = json.loads(output)
    assert report["is_document"]
    # There is neither a site nor a mailbox yet that a contact could name.
    complaints = [
        complaint
        for complaint in report["told"]
        if complaint["code"] != "asyncapi-info-contact-properties"
    ]
    assert not complaints
