"""Credentials: a key that every client of a test sends, where the test is run with one.

Tests marked `with_key` are. HEADGATE_TEST_CREDENTIALS=1 runs all of `test_chaos` and
`test_bad_peers` so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.key_files import EVERYTHING, Keys

ALWAYS = os.environ.get("HEADGATE_TEST_CREDENTIALS") == "1"


class Credentials:
    """The credentials of clients, and the settings of their gateway for them."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        self.settings: dict[str, object] = {}

    @property
    def header_lines(self) -> str:
        """Return the headers as they are sent."""
        return "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())

    @contextmanager
    def used(self, place: Path) -> Iterator[None]:
        """Use a key while the context lasts; it is kept in a file there."""
        token = Keys(place / "keys.json").add(EVERYTHING)
        self.headers = {"Authorization": f"Bearer {token}"}
        self.settings = {"keys_file": place / "keys.json"}
        try:
            yield
        finally:
            self.headers, self.settings = {}, {}


CREDENTIALS = Credentials()
"""Of the test that runs."""
