"""Mutants: small changes of the source that tests should notice, and a seeded choice of them."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOMS = (
    "engine/decisions",
    "engine/state",
    "engine/loop",
    "engine/journal",
    "app/auth",
    "app/live",
    "app/resp",
    "app/redis_syntax",
    "app/push",
    "app/durable_streams",
)
"""The folders whose code is changed."""

_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
}


_OF_TYPES = ("annotation", "returns", "type_params", "bases", "keywords")
"""The fields of a node that do not run, but for the keywords of a call."""


@dataclass(frozen=True, order=True)
class Mutant:
    """One change of one file: the text between two offsets is replaced."""

    path: str  # from the root of the repository
    line: int
    start: int  # bytes
    end: int
    text: str
    kind: str

    @property
    def room(self) -> str:
        """Return the folder it is in."""
        return next(room for room in ROOMS if self.path.startswith(f"{room}/"))

    def applied(self, source: bytes) -> bytes:
        """Return the source with the change."""
        return source[: self.start] + self.text.encode() + source[self.end :]

    def shown(self, source: bytes) -> str:
        """Return the change in one line."""
        before = " ".join(source[self.start : self.end].decode().split())
        return f"{self.path}:{self.line} {self.kind}: {before[:60]} → {self.text}"


def chosen(root: Path, rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """Return mutants, the same number of each room, in the same order for the same seed.

    Args:
        root: of the repository.
        rooms: those of `ROOMS` whose code is changed.
        count: how many.
        seed: of the choice.
    """
    mutants = []
    for number, room in enumerate(rooms):
        share = count // len(rooms) + (number < count % len(rooms))
        mutants += random.Random(f"{seed} {room}").sample(_all(root, room), share)
    return mutants


def _all(root: Path, room: str) -> list[Mutant]:
    return [
        mutant
        for path in sorted((root / room).rglob("*.py"))
        for mutant in sorted(mutants_of(path.read_bytes(), str(path.relative_to(root))))
    ]


def mutants_of(source: bytes, path: str) -> Iterator[Mutant]:
    """Yield every mutant of a file."""
    lines = [0]
    for line in source.splitlines(keepends=True):
        lines.append(lines[-1] + len(line))

    def place(node: ast.expr | ast.stmt) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return lines[node.lineno - 1] + node.col_offset, (
            lines[node.end_lineno - 1] + node.end_col_offset
        )

    def text(node: ast.expr) -> str:
        start, end = place(node)
        return source[start:end].decode()

    for node, kind, new in _changes(ast.parse(source), text):
        yield Mutant(path, node.lineno, *place(node), new, kind)


def _changes(
    tree: ast.Module, text: Callable[[ast.expr], str]
) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    for node in _runs(tree):
        match node:
            case ast.Compare(left, [op], [right]):
                yield node, "compare", f"({text(left)}) {_COMPARISONS[type(op)]} ({text(right)})"
            case ast.BoolOp(op, values):
                word = " or " if isinstance(op, ast.And) else " and "
                yield node, "and/or", "(" + word.join(f"({text(value)})" for value in values) + ")"
            case ast.Constant(bool(value)):
                yield node, "constant", str(not value)
            case ast.Constant(int(value)):
                yield node, "boundary", str(value + 1)
            case ast.Expr(ast.Call() | ast.Await(ast.Call())):
                yield node, "removed call", "pass"
            case ast.Return(ast.expr() as value) if not isinstance(value, ast.Constant):
                yield node, "return", "return None"


def _runs(tree: ast.Module) -> Iterator[ast.AST]:
    """Yield the nodes of code that runs: no annotations, and no types."""
    waiting: list[ast.AST] = [tree]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test):
            continue
        yield node
        for field, value in ast.iter_fields(node):
            if field in _OF_TYPES and not isinstance(node, ast.Call):
                continue
            children = value if isinstance(value, list) else [value]
            # What an f-string has in it has no place of its own before Python 3.12.
            waiting += [
                child
                for child in children
                if isinstance(child, ast.AST)
                and not isinstance(child, (ast.JoinedStr, ast.Assert, ast.match_case))
            ]
