"""A gateway in a process of its own, for tests that are not coroutines."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx
import pyarrow as pa

from headgate.client.blocking import Client
from tests.processes.gateway import END_S_MAX, HEADGATE, ROOT, GatewayProcess

__all__ = ["ROOT", "Gateway", "add_key"]


def add_key(data_dir: Path, *grants: Mapping[str, object]) -> str:
    """Return a new key for the gateway of a directory; it need not run."""
    words = [word for grant in grants for word in ("--grant", json.dumps(grant))]
    return subprocess.run(
        [*HEADGATE, "keys", "add", "test", *words, "--data-dir", str(data_dir)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=END_S_MAX,
        check=True,
    ).stdout.strip()


class Gateway:
    """A gateway on a directory, that can be killed and started again at the same address."""

    def __init__(
        self,
        data_dir: Path | str,
        settings: Mapping[str, object] | None = None,
        *,
        key: str | None = None,
    ) -> None:
        """Start it.

        Args:
            data_dir: of its journal.
            settings: of it, by name.
            key: sent with what tests do to streams.
        """
        self.data_dir = data_dir
        self._settings = dict(settings or {})
        self._process = GatewayProcess.started(data_dir, self._settings)
        self.url = self._process.url
        self._settings["port"] = self._process.port
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        self.http = httpx.Client(base_url=self.url, timeout=30, headers=headers)

    def start(self) -> None:
        """Start it again, and return once it accepts connections."""
        self._process = GatewayProcess.started(self.data_dir, self._settings)

    def kill(self) -> None:
        """End it as a power switch does."""
        self._process.kill_now()
        self._process.wait()

    def stop(self) -> None:
        """End it for good."""
        self.kill()
        self.http.close()

    # What tests do to streams.

    def append(self, stream: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
        """Append entries, each given by its fields; returns their ids."""
        return self.append_entries(stream, [{"fields": fields} for fields in entries])

    def append_entries(self, stream: str, entries: Sequence[Mapping[str, Any]]) -> list[str]:
        """Append entries as the interface takes them; returns their ids."""
        ids: list[str] = []
        for begin in range(0, len(entries), 1000):
            answer = self.http.post(
                f"/v1/streams/{stream}/entries/batch", json=list(entries[begin : begin + 1000])
            )
            assert answer.status_code == 201, answer.text
            ids += answer.json()["ids"]
        return ids

    def append_pairs(self, stream: str, pairs: Sequence[tuple[str | bytes, str | bytes]]) -> None:
        """Append one entry of pairs in their order, repeats and all."""
        fields = pa.array([pairs], pa.map_(pa.binary(), pa.binary()))
        with Client(self.url) as client:
            client.stream(stream).append_batch(pa.RecordBatch.from_pydict({"fields": fields}))

    def entries(self, stream: str) -> list[dict[str, Any]]:
        """Return all entries of a stream, in order; none if there is no such stream."""
        params: dict[str, str | int] = {"start": "-", "end": "+", "limit": 1_000_000}
        headers = {"Accept": "application/x-ndjson"}
        answer = self.http.get(f"/v1/streams/{stream}/entries", params=params, headers=headers)
        if answer.status_code == 404:
            return []
        assert answer.status_code == 200, answer.text
        return [httpx.Response(200, content=line).json() for line in answer.text.splitlines()]

    def count(self, stream: str) -> int:
        """Return how many entries a stream has; 0 if there is no such stream."""
        answer = self.http.get(f"/v1/streams/{stream}")
        return int(answer.json()["length"]) if answer.status_code == 200 else 0

    def trim(self, stream: str, **how: object) -> None:
        answer = self.http.post(f"/v1/streams/{stream}/trim", json=how)
        assert answer.status_code == 200, answer.text
