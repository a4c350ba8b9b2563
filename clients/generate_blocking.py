"""Writes `headgate.client.blocking.classes` from the asyncio classes.

    python -m clients.generate_blocking

Each method of a blocking class runs the method of the same name on the loop of a portal and waits
for it. Signatures and docstrings are those of the asyncio classes.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from pathlib import Path

SOURCES = Path(__file__).parent / "python"
TARGET = SOURCES / "blocking" / "classes.py"

CLASSES = {
    "bulk": {"Batches": "BlockingBatches", "Writer": "BlockingWriter"},
    "job": {"Job": "BlockingJob"},
    "table": {"Table": "BlockingTable"},
    "stream": {"Following": "BlockingFollowing", "Stream": "BlockingStream"},
    "channel": {"Messages": "BlockingMessages", "Channel": "BlockingChannel"},
    "automation": {"Push": "BlockingPush", "Schedule": "BlockingSchedule"},
    "group": {"Consuming": "BlockingConsuming", "Group": "BlockingGroup"},
    "groups": {"Groups": "BlockingGroups"},
    "client": {"AsyncClient": "Client"},
}
"""Of each module: its classes, with the names of their blocking ones."""

NAMES = {name: blocking for names in CLASSES.values() for name, blocking in names.items()}

WRITTEN_OTHERWISE = {"Group": {"claim_idle_ms"}}
"""Methods that only the asyncio classes need. `work` stands in `working.py`."""

_BASES = {
    "BlockingGroup": "Working[Group, BlockingJob]",
    "BlockingGroups": "Working[Groups, BlockingJob]",
}
_CONSTANTS = {name: ["", "    _blocking_job = BlockingJob"] for name in _BASES}
_SPECIAL = {
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "aclose": "close",
}
_HEADER = '''"""The client without asyncio. `clients/generate_blocking.py` writes this file."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import httpx

from headgate.client import tables
from headgate.client.automation import Push, Schedule
from headgate.client.blocking.portal import Portal
from headgate.client.blocking.working import Working
from headgate.client.bulk import Attempt, Batches, Compression, Cursor, Filter, Plan, Split, Writer
from headgate.client.channel import Channel, Message, Messages
from headgate.client.client import AsyncClient
from headgate.client.commits import Step
from headgate.client.credential import TokenSource
from headgate.client.entries import Claimed, Delivery, Draft, Entry, Fields, Gap, Pairs, Value
from headgate.client.group import Consuming, Group
from headgate.client.groups import Groups, IdsOfStreams, MissingGroups, OutcomesOfStreams
from headgate.client.job import Job
from headgate.client.shapes.answers import (
    ClosedStream,
    Committed,
    ConsumerInfo,
    GroupInfo,
    GroupKey,
    KeyOrder,
    Members,
    Missed,
    PendingEntry,
    PendingSummary,
    PushAttempt,
    PushBody,
    PushInfo,
    PushReplay,
    PushSignature,
    PushSummary,
    Readiness,
    Redriven,
    ScheduleInfo,
    StreamDetail,
    StreamInfo,
    Ticket,
    TicketVerb,
)
from headgate.client.shapes.settings import OnDisconnect, Policy, StreamConfig
from headgate.client.steps import Duration
from headgate.client.stream import Following, OnClaimed, OnState, Page, Stream
from headgate.client.subscription import Mode, Outcome
from headgate.client.table import Row, RowChange, Table

if TYPE_CHECKING:
    import pandas as pd
    import polars as pl
    import pyarrow as pa

'''


def generated() -> str:
    parts = [_HEADER]
    for module, classes in CLASSES.items():
        tree = ast.parse((SOURCES / f"{module}.py").read_text())
        parts += [
            _class(node, classes[node.name])
            for node in tree.body
            if isinstance(node, ast.ClassDef) and node.name in classes
        ]
    return "\n".join(parts)


def _class(node: ast.ClassDef, name: str) -> str:
    base = f"({_BASES[name]})" if name in _BASES else ""
    lines = [f"class {name}{base}:", f'    """{_adapted(ast.get_docstring(node, clean=False))}"""']
    lines += _CONSTANTS.get(name, [])
    for item in node.body:
        if isinstance(item, ast.FunctionDef | ast.AsyncFunctionDef):
            lines += _method(node.name, item)
    return "\n".join(lines) + "\n"


def _method(owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    is_property = any("property" in ast.unparse(each) for each in node.decorator_list)
    if node.name == "__init__":
        return _init(owner, node)
    is_private = node.name.startswith("_") and node.name not in _SPECIAL
    if is_private or node.name in WRITTEN_OTHERWISE.get(owner, ()):
        return []
    name = _SPECIAL.get(node.name, node.name)
    arguments, returns = ast.unparse(node.args), ast.unparse(node.returns or ast.Constant(None))
    lines = ["", "    @property"] if is_property else [""]
    if name == "__exit__":
        ending = "self._portal.end(self._inner.__aexit__(*error))"
        if returns == "bool":  # it may let an exception end here
            ending = f"return bool({ending})"
        lines += [f"    def {name}(self, *error: object) -> {returns}:", f"        {ending}"]
        if owner == "AsyncClient":
            lines.append("        self._portal.close()")
        return lines
    kind = _result(returns)
    lines.append(f"    def {name}({arguments}) -> {kind}:")
    docstring = ast.get_docstring(node, clean=False)
    if docstring:
        lines.append(f'        """{_adapted(docstring)}"""')
    return lines + [f"        {line}" for line in _body(owner, node, returns, is_property)]


def _init(owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef) -> list[str]:
    if owner != "AsyncClient":
        init = [
            "",
            f"    def __init__(self, inner: {owner}, portal: Portal) -> None:",
            '        """Run the calls of `inner` on the loop of a portal."""',
            "        self._inner = inner",
            "        self._portal = portal",
        ]
        for name, kind, docstring in _attributes(node):
            init += ["", "    @property", f"    def {name}(self) -> {kind}:"]
            init += [f'        """{docstring}"""', f"        return self._inner.{name}"]
        return init
    passed = ", ".join(f"{arg.arg}={arg.arg}" for arg in node.args.kwonlyargs)
    return [
        "",
        f"    def __init__({ast.unparse(node.args)}) -> None:",
        f'        """{_adapted(ast.get_docstring(node, clean=False))}"""',
        f"        self._inner = AsyncClient(url, {passed})",
        "        self._portal = Portal()",
    ]


def _attributes(init: ast.FunctionDef | ast.AsyncFunctionDef) -> list[tuple[str, str, str]]:
    kinds = {arg.arg: ast.unparse(arg.annotation) for arg in init.args.args if arg.annotation}
    attributes = []
    for line in init.body:
        if not isinstance(line, ast.Assign | ast.AnnAssign):
            continue
        target = line.target if isinstance(line, ast.AnnAssign) else line.targets[0]
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
            annotation = line.annotation if isinstance(line, ast.AnnAssign) else None
            kind = ast.unparse(annotation) if annotation else kinds.get(target.attr)
            if kind in ("str", "str | None", "Gap | None"):
                attributes.append((target.attr, kind, _ATTRIBUTES[target.attr]))
    return attributes


_ATTRIBUTES = {
    "epoch": "Return the epoch of the stream.",
    "gap": "Return the ids that were trimmed before the latest entry. None: nothing was trimmed.",
    "gap_to": "Return the last trimmed id of the range. None: nothing was trimmed.",
    "id": "Return the id of the entry.",
    "match": "Return the pattern.",
    "last_id": "Return the last id of the stream.",
    "name": "Return the name.",
    "stream": "Return the name of the stream.",
}


def _body(
    owner: str, node: ast.FunctionDef | ast.AsyncFunctionDef, returns: str, is_property: bool
) -> list[str]:
    if node.name in ("__aenter__", "__aiter__"):
        waits = any(isinstance(part, ast.Await) for part in ast.walk(node))
        entering = ["self._portal.call(self._inner.__aenter__())"] if waits else []
        return [*entering, "return self"]
    if is_property:
        return [f"return {_wrapped(f'self._inner.{node.name}', returns)}"]
    passed = [arg.arg for arg in node.args.args[1:]]
    passed += [] if node.args.vararg is None else [f"*{node.args.vararg.arg}"]
    passed += [f"{arg.arg}={arg.arg}" for arg in node.args.kwonlyargs]
    call = f"self._inner.{node.name}({', '.join(passed)})"
    if node.name == "__anext__":
        return [f"return {_wrapped('self._portal.step(self._inner)', returns)}"]
    if returns.startswith("AsyncGenerator"):
        return [f"return self._portal.iterate({call})"]
    if isinstance(node, ast.AsyncFunctionDef):
        if node.name == "aclose":
            closing = ["self._portal.close()"] if owner == "AsyncClient" else []
            return [f"self._portal.end({call})", *closing]
        returned = "" if returns == "None" else "return "
        return [f"{returned}{_wrapped(f'self._portal.call({call})', returns)}"]
    if returns == "None":  # what only notes something, on the loop all the same
        run = call.removesuffix("()") if call.endswith("()") else f"lambda: {call}"
        return [f"self._portal.run({run})"]
    return [f"return {_wrapped(call, returns)}"]


def _wrapped(call: str, returns: str) -> str:
    return f"{NAMES[returns]}({call}, self._portal)" if returns in NAMES else call


def _result(returns: str) -> str:
    if match := re.fullmatch(r"AsyncGenerator\[(\w+)\]", returns):
        return f"Iterator[{match[1]}]"
    return NAMES.get(returns, returns)


def _adapted(docstring: str | None) -> str:
    text = docstring or ""
    for name in ("async for", "async with"):
        text = text.replace(name, name.removeprefix("async "))
    text = text.replace("await ", "").replace("AsyncClient", "Client")
    text = text.replace("`aclose`", "`close`").replace(", for asyncio", "")
    return text.replace("StopAsyncIteration", "StopIteration")


def formatted(text: str) -> str:
    ruff = [sys.executable, "-m", "ruff"]
    fixed = subprocess.run(  # noqa: S603 - the formatter of this environment
        [*ruff, "format", "--stdin-filename", str(TARGET), "-"],
        input=text,
        capture_output=True,
        text=True,
        check=True,
    )
    return fixed.stdout


if __name__ == "__main__":
    TARGET.write_text(formatted(generated()))
