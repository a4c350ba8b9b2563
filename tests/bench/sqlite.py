"""SQLite in a process of its own, so that its CPU and its memory are seen.

`python -m tests.bench.sqlite FILE COLUMN…` reads requests from its input and writes answers to its
output, both pickled. The time is that of SQLite alone: what goes through the pipe is not counted.
"""

import pickle
import sqlite3
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

Row = tuple[int | str | bytes, ...]

SCAN_ROWS = 1_000


class Answer(NamedTuple):
    """The result of a request, and what SQLite used for it."""

    result: Any
    seconds: float
    cpu_s: float


class Table:
    """An append-only table with the settings of someone who wants to lose nothing."""

    def __init__(self, path: str, columns: Sequence[str]) -> None:
        """Open a file, or make it."""
        self._database = sqlite3.connect(path, isolation_level=None, timeout=60)
        self._database.execute("PRAGMA journal_mode=WAL")
        self._database.execute("PRAGMA synchronous=FULL")
        declared = ", ".join(f"{column} BLOB" for column in columns)
        self._database.execute(
            f"CREATE TABLE IF NOT EXISTS entries (id INTEGER PRIMARY KEY, {declared})"
        )
        marks = ", ".join("?" * (1 + len(columns)))
        self._insert = f"INSERT INTO entries VALUES ({marks})"

    def last_id(self) -> int:
        [[last_id]] = self._database.execute("SELECT coalesce(max(id), 0) FROM entries")
        return int(last_id)

    def append(self, rows: Sequence[Row]) -> None:
        """Append rows in one transaction."""
        self._database.execute("BEGIN IMMEDIATE")
        self._database.executemany(self._insert, rows)
        self._database.execute("COMMIT")

    def read(self, row_id: int) -> Row:
        """Return a row without its id."""
        rows = self._database.execute("SELECT * FROM entries WHERE id = ?", (row_id,))
        row: Row = rows.fetchone()
        return row[1:]

    def scan(self) -> int:
        """Return how many rows were read from the first to the last."""
        rows, count = self._database.execute("SELECT * FROM entries ORDER BY id"), 0
        while page := rows.fetchmany(SCAN_ROWS):
            count += len(page)
        return count


def main(path: str, *columns: str) -> None:
    """Answer requests until the input ends; the first answer says that the file is open."""
    began_s, began_cpu_s = time.perf_counter(), time.process_time()
    table = Table(path, columns)
    result: Any = table.last_id()
    while True:
        answer = Answer(result, time.perf_counter() - began_s, time.process_time() - began_cpu_s)
        pickle.dump(tuple(answer), sys.stdout.buffer)
        sys.stdout.buffer.flush()
        try:
            name, *arguments = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        began_s, began_cpu_s = time.perf_counter(), time.process_time()
        result = getattr(table, name)(*arguments)


if __name__ == "__main__":
    main(*sys.argv[1:])
