"""Stages: each reads in order by key what the one before has appended; commits move the entries."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import pairwise
from typing import Any

from tests.ledger.client import Client, Pause, RefusedError, answered

STREAMS = ["raw", "parsed", "priced", "results"]
"""What goes in, what is between the stages, and what comes out."""

STAGES = list(pairwise(STREAMS))
GROUP = "stage"
KEY_FIELD = "key"
TAKEN_MAX = 50


def entries(first: int, count: int, key_count: int) -> list[dict[str, str]]:
    """Return the fields of entries; their numbers grow, also within a key."""
    numbers = range(first, first + count)
    return [{KEY_FIELD: f"k{number % key_count}", "number": str(number)} for number in numbers]


class Operator:
    """One life of a worker of a stage."""

    def __init__(
        self, client: Client, name: str, life: str, stage: tuple[str, str], pause: Pause
    ) -> None:
        """Begin; `life` is unique, and others may go by the same name."""
        self._client, self._name, self._life, self._pause = client, name, life, pause
        self._source, self._target = stage

    async def run(self) -> None:
        """Work until the end of this life."""
        take = partial(self._client.take, self._source, GROUP, self._name, TAKEN_MAX)
        number = 0
        while True:
            if not (taken := await answered(self._pause, take)):
                continue
            number += 1
            results = [{"fields": entry.fields} for entry in taken]
            settled = {
                "stream": self._source,
                "group": GROUP,
                "ids": [entry.id for entry in taken],
                "deliveries": [entry.deliveries for entry in taken],
            }
            steps: list[dict[str, Any]] = [
                {"append": {"stream": self._target, "entries": results}},
                {"ack": settled},
            ]
            key = f"{self._life}.{number}"
            commit = partial(self._client.commit, self._name, steps, key)
            try:
                await answered(self._pause, commit)
            except RefusedError as error:  # somebody else has some of them by now
                if error.code != "not_yours":
                    raise


def violations_of_order(
    sent: Sequence[Mapping[str, str]], results: Sequence[Mapping[str, str]]
) -> Iterator[str]:
    """Yield the keys whose results are not what was sent, each once, in order."""
    wanted, found = _by_key(sent), _by_key(results)
    for key in wanted | found:
        if wanted[key] != found[key]:
            yield f"{key}: {len(found[key])} results of {len(wanted[key])}: {found[key][:10]}"


def _by_key(entries: Sequence[Mapping[str, str]]) -> defaultdict[str, list[str]]:
    numbers = defaultdict[str, list[str]](list)
    for fields in entries:
        numbers[fields[KEY_FIELD]].append(fields["number"])
    return numbers
