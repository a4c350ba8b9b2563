"""All examples, by subject: commands, and the reply of the last one. `examples.txt` has them."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.unit.app.redis_syntax import console

_SEVEN = [f"XADD s {n} f v{n}" for n in range(1, 8)]
_OTHER = [*console.FIVE, "XADD t 1 f v1", "XADD t 2 f v2"]
_LINES = {
    "FIVE": console.FIVE,
    "SEVEN": _SEVEN,
    "THREE": [*console.FIVE[:3], console.GROUP],
    "THIRTY_FIVE": [
        "CONFIG SET stream-node-max-entries 10",
        *(f"XADD s {n} a b" for n in range(1, 36)),
    ],
    "OTHER": _OTHER,
    "GROUPS": [*_OTHER, console.GROUP, "XGROUP CREATE t g 0"],
    "TWO": console.TWO,
    "ALL_READ": console.ALL_READ,
    "ADD": ["XADD s * a 1"],
    "KEYED": ["XADD s IDMP p i * a 1"],
    "GROUP": [console.GROUP],
    "READ": [console.READ],
    "CLAIM": ["XREADGROUP GROUP g d CLAIM 50 STREAMS s >"],
    "LEFT": [console.LEFT],
    "PENDING": [console.PENDING],
    "LAG": ["XINFO GROUPS s | entries-read lag"],
}
_TEXTS = {"INVALID_ID": console.INVALID_ID, "NOT_AN_INTEGER": console.NOT_AN_INTEGER}


def _example(row: str) -> console.Case:
    name, _, example = row.partition(" :: ")
    commands, _, reply = example.rpartition(" => ")
    lines = [line for each in commands.split(" / ") for line in _LINES.get(each, [each])]
    entry = re.sub(r"@(\d)(?::(\d+):(\d+))?", _entry, reply)
    is_json = re.match(r'[\d\[{"-]|null$', entry)
    return name, lines, json.loads(entry) if is_json else _TEXTS.get(reply, reply)


def _entry(match: re.Match[str]) -> str:
    number, *claimed = match.groups()
    return json.dumps([f"{number}-0", ["f", f"v{number}"], *(int(n) for n in claimed if n)])


def _examples() -> dict[str, list[console.Case]]:
    text = Path(__file__).with_name("examples.txt").read_text("utf-8")
    subjects: dict[str, list[console.Case]] = {}
    cases: list[console.Case] = []
    for row in filter(None, text.splitlines()):
        if row.startswith("["):
            cases = subjects.setdefault(row.strip("[]"), [])
        elif not row.startswith("#"):
            cases.append(_example(row))
    return subjects


EXAMPLES = _examples()
