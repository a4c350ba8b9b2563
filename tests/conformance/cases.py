"""Cases as they are written down, and how one is carried out by a face."""

from __future__ import annotations

import asyncio
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from tests.conditions import WITHIN_S, moment, until
from tests.conformance.faces.port import Port, Refused

FOLDER = Path(__file__).parent / "cases"

IDS = {"id", "ids", "after", "start", "end", "min_id", "last_id", "ack"}
STREAMS = {"stream", "dead_letter_stream"}
_ID = re.compile(r"\d+-\d+")
_RUN = uuid4().hex[:8]


class Case(NamedTuple):
    """A behaviour: steps with what must come of each."""

    name: str
    steps: list[list[Any]]
    needs: frozenset[str] = frozenset()

    @property
    def operations(self) -> frozenset[str]:
        return frozenset(step[0] for step in self.steps)


def read_cases() -> Iterator[Case]:
    """Yield all cases of the folder."""
    for path in sorted(FOLDER.glob("*.toml")):
        for name, case in tomllib.loads(path.read_text()).items():
            steps, needs = case["steps"], case.get("needs", ())
            if "given" in case:
                steps = [*_given(case["given"], case.get("policy")), *steps]
            yield Case(name, steps, frozenset(needs))


def _given(numbers: list[int], policy: Any) -> Iterator[list[Any]]:
    """Yield the steps that make a group, and entries which it has not seen."""
    group = {"start": 0, "create_stream": True}
    yield ["create_group", group | ({"policy": policy} if policy else {})]
    if numbers:
        yield ["append", {"n": numbers}]


class Book:
    """The ids and names of a run, for the small numbers and short names of its case."""

    def __init__(self, case: Case, face: Port) -> None:
        slug = re.sub(r"\W+", "-", case.name)
        self._prefix = f"{_RUN}-{type(face).__name__}-{slug}-"
        self._ids = {0: "0-0"}

    def written(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """Return arguments with the names and ids of this run."""
        return {name: self._written(name, value) for name, value in args.items()}

    def _written(self, name: str, value: Any) -> Any:
        if value == "null":
            return None
        if name in ("filters", "fields"):
            return value
        if name in STREAMS:
            return self._prefix + value
        if isinstance(value, dict):
            return self.written(value)
        if name not in IDS:
            return value
        return [self._id(each) for each in value] if isinstance(value, list) else self._id(value)

    def _id(self, value: Any) -> str:
        return self._ids.get(value, f"{value}-0") if isinstance(value, int) else str(value)

    def remember(self, numbers: list[int], ids: list[str]) -> None:
        """Note the ids of new entries."""
        for number, entry_id in zip(numbers, ids, strict=False):
            self._ids.setdefault(number, entry_id)

    def shown(self, value: Any) -> Any:
        """Return an answer with small numbers in place of ids."""
        if isinstance(value, Mapping):
            return {name: self.shown(each) for name, each in value.items()}
        if isinstance(value, list | tuple):
            return [self.shown(each) for each in value]
        if isinstance(value, str) and _ID.fullmatch(value):
            known = {entry_id: number for number, entry_id in self._ids.items()}
            return known.get(value, value)
        return value


def differences(expected: Any, got: Any, untold: frozenset[str], at: str = "") -> list[str]:
    """Return the differences between an answer and the expected one, parts left out apart.

    A number stands for the entry with this id, and a text for a result with this outcome.
    """
    if expected == "null":
        expected = None
    if expected == "some":
        return [] if got is not None else [f"{at}: nothing"]
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        names = [name for name in expected if name in got or name not in untold]
        pairs = [(expected[name], got.get(name), f"{at}.{name}") for name in names]
    elif isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        pairs = [(*pair, f"{at}[{n}]") for n, pair in enumerate(zip(expected, got, strict=True))]
    elif isinstance(got, Mapping) and isinstance(expected, int | str):
        return differences(expected, got["id" if isinstance(expected, int) else "outcome"], untold)
    else:
        return [] if expected == got else [f"{at}: {got!r} in place of {expected!r}"]
    return [text for pair in pairs for text in differences(*pair[:2], untold, pair[2])]


class Run:
    """A case that is carried out by a face."""

    def __init__(self, case: Case, face: Port) -> None:
        self._case, self._face = case, face
        self._book = Book(case, face)
        self._waiting: dict[str, asyncio.Task[Any]] = {}

    async def run(self) -> None:
        """Carry out all steps.

        Raises:
            AssertionError: something else came of a step; it says of which.
        """
        try:
            for number, step in enumerate(self._case.steps, 1):
                wrong = await self._step(*step)
                assert not wrong, f"step {number}, {step}: {'; '.join(wrong)}"
        finally:
            for task in self._waiting.values():
                task.cancel()
            await asyncio.gather(*self._waiting.values(), return_exceptions=True)

    async def _step(self, operation: str, args: Any = (), expected: Any = None) -> list[str]:
        if operation == "ends":
            return await self._check(self._waiting.pop(args), expected)
        if operation == "waits":
            return [f"{args} has ended"] if self._waiting[args].done() else []
        given = dict(args)
        if given.pop("until", False):
            return await self._until(operation, given, expected)
        name = given.pop("as", None)
        work = self._perform(operation, given if name is None else {"wait_ms": 20_000, **given})
        if name is None:
            return await self._check(work, expected)
        live = self._face.live
        before = live.waiter_count
        self._waiting[name] = asyncio.create_task(work)
        await until(lambda: live.waiter_count > before or self._waiting[name].done())
        return []

    async def _until(self, *step: Any) -> list[str]:
        """Repeat a step until it comes out as expected."""
        wrong = await self._step(*step)
        with suppress(TimeoutError):
            async with asyncio.timeout(WITHIN_S):
                while wrong:
                    await moment()
                    wrong = await self._step(*step)
        return wrong

    async def _check(self, work: Any, expected: Any) -> list[str]:
        try:
            async with asyncio.timeout(WITHIN_S):
                got = self._book.shown(await work)
        except Refused as refused:
            code = (expected or {}).get("problem")
            is_so = code is not None and self._face.is_problem(code, refused)
            return [] if is_so else [f"refused: {refused}"]
        return [] if expected is None else differences(expected, got, self._face.untold)

    async def _perform(self, operation: str, args: dict[str, Any]) -> Any:
        numbers = args.pop("n", [])
        fields, timing = args.pop("fields", {}), args.pop("timing", {})
        args = self._book.written({"stream": "s", **args})
        if "group" in signature_of(operation):
            args.setdefault("group", "g")
        if numbers:
            args["entries"] = [
                {"fields": {"n": str(number), **fields}, **timing} for number in numbers
            ]
            if "id" in args:
                args["entries"][0]["id"] = args.pop("id")
        answer = await self._face.does(operation)(**args)
        if numbers:
            self._book.remember(numbers, answer["ids"])
        return answer


def signature_of(operation: str) -> set[str]:
    """Return the names of the arguments of an operation."""
    code = getattr(Port, operation).__code__
    return set(code.co_varnames[: code.co_argcount])
