"""The signature checks of the guide take requests of the gateway, and no others."""

import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from standardwebhooks import Webhook

from headgate.app.settings import Settings
from tests.api.conftest import Live, running
from tests.api.documents.snippets import snippets
from tests.receiver import Receiver
from tests.sdk.typescript import packages
from tests.sdk.workshop import output_of, tool

SIGNED = "webhook-id", "webhook-timestamp", "webhook-signature"

PYTHON = """
import json, sys
for case in json.load(open("cases.json")):
    print(is_signed(case["secret"], case["headers"], case["body"].encode()))
"""
TYPESCRIPT = """
import { readFileSync } from "node:fs";
for (const { secret, headers, body } of JSON.parse(readFileSync("cases.json", "utf8")))
  console.log(isSigned(secret, headers, Buffer.from(body)));
"""
GO = """
func main() {
	text, _ := os.ReadFile("cases.json")
	var cases []struct { Secret, Body string; Headers map[string]string }
	if err := json.Unmarshal(text, &cases); err != nil { panic(err) }
	for _, each := range cases {
		headers := http.Header{}
		for name, value := range each.Headers { headers.Set(name, value) }
		fmt.Println(IsSigned(each.Secret, headers, []byte(each.Body)))
	}
}
"""
PHP = """
foreach (json_decode(file_get_contents('cases.json'), true) as $case) {
    $server = [];
    foreach ($case['headers'] as $name => $value)
        $server['HTTP_' . strtoupper(strtr($name, '-', '_'))] = $value;
    echo var_export(is_signed($case['secret'], $server, $case['body']), true), "\\n";
}
"""


@pytest.fixture
async def live() -> AsyncIterator[Live]:
    async with running(Settings(push_allow=["127.0.0.0/8"])) as gateway:
        yield gateway


@pytest.fixture
async def cases(live: Live, tmp_path: Path) -> list[bool]:
    """Write requests into a file: two of the gateway, and others; return which are its own."""
    receiver, push = Receiver(("200 OK", b"")), "/v1/streams/orders/groups/billing/push"
    await receiver.open()
    await live.create_group("orders", "billing")
    old = (await live.ask(f"PUT {push}", {"url": receiver.url}))["secret"]
    secret = (await live.ask(f"POST {push}/rotate", {}))["secret"]
    await live.append("orders", "ü")
    notice = await receiver.next()
    await live.ask(f"DELETE {push}")
    await receiver.close()
    body = notice.body.decode()
    real = {"secret": secret, "body": body, "headers": {n: notice.header(n) for n in SIGNED}}
    headers = real["headers"]

    def at(when: datetime) -> dict[str, Any]:
        signature = Webhook(secret).sign("msg_1", when, body)
        times = ("msg_1", str(int(when.timestamp())), signature)
        return {**real, "headers": dict(zip(SIGNED, times, strict=True))}

    now, six_minutes = datetime.now(UTC), timedelta(minutes=6)
    others = [
        {**real, "body": f"{body} "},
        {**real, "secret": "whsec_" + "x" * 43 + "="},
        {**real, "headers": {**headers, "webhook-id": "msg_2"}},
        {**real, "headers": {**headers, "webhook-signature": "v1,x v1,?? v1, , v1a"}},
        {**real, "headers": {**headers, "webhook-timestamp": "soon"}},
        {**real, "headers": {}},
        at(now - six_minutes),
        at(now + six_minutes),
    ]
    own = [real, {**real, "secret": old}, at(now)]
    (tmp_path / "cases.json").write_text(json.dumps(own + others))
    return [True] * len(own) + [False] * len(others)


def check_of(language: str) -> str:
    [code] = [
        each.code for each in snippets("push", language) if "webhook-sig" in each.code.lower()
    ]
    return code


def told(output: str) -> list[bool]:
    return [line.lower() == "true" for line in output.splitlines()]


async def test_in_python(cases: list[bool], tmp_path: Path) -> None:
    (tmp_path / "check.py").write_text(check_of("python") + PYTHON)
    assert told(await output_of(sys.executable, "check.py", folder=tmp_path)) == cases


async def test_in_typescript(cases: list[bool], tmp_path: Path) -> None:
    (tmp_path / "node_modules").symlink_to(packages())
    (tmp_path / "package.json").write_text('{"type": "module"}')
    (tmp_path / "check.ts").write_text(check_of("ts") + TYPESCRIPT)
    options = ("--strict", "--target", "es2022", "--module", "nodenext", "--types", "node")
    compiler = packages() / ".bin" / "tsc"
    await output_of(tool("node"), compiler, *options, "check.ts", folder=tmp_path)
    assert told(await output_of(tool("node"), "check.js", folder=tmp_path)) == cases


async def test_in_go(cases: list[bool], tmp_path: Path) -> None:
    code = check_of("go")
    (tmp_path / "check.go").write_text(code)
    assert not await output_of(tool("gofmt"), "-l", "check.go", folder=tmp_path)
    program = code.replace("package webhooks", "package main") + GO
    program = program.replace("import (", 'import (\n"encoding/json"\n"fmt"\n"os"', 1)
    (tmp_path / "check.go").write_text(program)
    assert told(await output_of(tool("go"), "run", "check.go", folder=tmp_path)) == cases


async def test_in_php(cases: list[bool], tmp_path: Path) -> None:
    code = next(each.code for each in snippets("push", "php"))
    (tmp_path / "check.php").write_text(f"<?php\n{code}{PHP}")
    assert told(await output_of(tool("php"), "check.php", folder=tmp_path)) == cases
