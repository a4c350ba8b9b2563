"""Bank: accounts are rows, transfers are entries, and tellers carry out each one in a commit."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from typing import Any

import msgspec

from tests.ledger.client import Client, Entry, Pause, RefusedError, answered, append

ACCOUNTS, TRANSFERS, DONE, TELLERS = "accounts", "transfers", "done", "tellers"
KEY_FIELD = "account"
NAMES = [f"a{number}" for number in range(1_000)]
BUSY = NAMES[:5]
"""Accounts that have a part in every second transfer, so that commits meet."""

BALANCE = 100
TAKEN_MAX = 3
OPENED_TOGETHER = 250


class Looked(msgspec.Struct, tag=True):
    """A row was read."""

    account: str
    row: str
    balance: int
    asked_at: int
    answered_at: int


class Tried(msgspec.Struct, tag=True):
    """A commit is about to be sent, maybe more than once."""

    attempt: str
    transfer: str


class Told(msgspec.Struct, tag=True):
    """A commit was answered: with the ids of both rows and of the entry in `done`, or a refusal."""

    attempt: str
    ids: list[str]
    refusal: str | None
    answered_at: int


Event = Looked | Tried | Told
Note = Callable[[Event], None]


def tally(log: Sequence[Event]) -> Counter[str]:
    """Return how often each answer to a commit came, and how many commits nobody heard of."""
    told = [event.refusal or "done" for event in log if isinstance(event, Told)]
    tried = sum(isinstance(event, Tried) for event in log)
    return Counter({**Counter(told), "unheard": tried - len(told)})


def ordered(chance: random.Random, number: int) -> dict[str, str]:
    """Return the fields of a transfer."""
    names = NAMES if chance.random() < 0.5 else BUSY
    source, target = chance.sample(names, 2)
    amount = str(chance.randint(1, BALANCE))
    return {"from": source, "to": target, "amount": amount, "number": str(number)}


async def open_accounts(client: Client, pause: Pause) -> None:
    """Append the first row of each account."""
    for start in range(0, len(NAMES), OPENED_TOGETHER):
        rows = [
            {KEY_FIELD: name, "balance": str(BALANCE), "attempt": ""}
            for name in NAMES[start : start + OPENED_TOGETHER]
        ]
        await append(client, pause, ACCOUNTS, rows, f"accounts {start}")


async def order(
    client: Client, pause: Pause, transfers: Sequence[dict[str, str]], key: str
) -> dict[str, dict[str, str]]:
    """Append transfers, and return them by id once the gateway says that they are there."""
    ids = await append(client, pause, TRANSFERS, transfers, key)
    return dict(zip(ids, transfers, strict=True))


class Teller:
    """One life of a worker."""

    def __init__(self, client: Client, name: str, life: str, note: Note, pause: Pause) -> None:
        """Begin; `life` is unique, and others may go by the same name."""
        self._client, self._name, self._note, self._pause = client, name, note, pause
        self._attempts = (f"{life}.{number}" for number in count())

    async def run(self) -> None:
        """Work until the end of this life."""
        take = partial(self._client.take, TRANSFERS, TELLERS, self._name, TAKEN_MAX)
        while True:
            for transfer in await answered(self._pause, take):
                while not await self._settle(transfer):
                    pass

    async def _settle(self, transfer: Entry) -> bool:
        """Carry out a transfer; false if a row has changed meanwhile, so that it is to be read."""
        source, target = transfer.fields["from"], transfer.fields["to"]
        amount, attempt = int(transfer.fields["amount"]), next(self._attempts)
        puts = [
            self._put(await self._look(account), attempt, change)
            for account, change in ((source, -amount), (target, amount))
        ]
        done = {"fields": {"transfer": transfer.id, "attempt": attempt}}
        settled = {"stream": TRANSFERS, "group": TELLERS, "ids": [transfer.id]}
        steps = [
            *puts,
            {"append": {"stream": DONE, "entries": [done]}},
            {"ack": {**settled, "deliveries": [transfer.deliveries]}},
        ]
        self._note(Tried(attempt, transfer.id))
        commit = partial(self._client.commit, self._name, steps, attempt)
        try:
            ids = await answered(self._pause, commit)
        except RefusedError as error:
            self._note(Told(attempt, [], error.code, self._client.now()))
            return error.code != "row_changed"
        self._note(Told(attempt, ids, None, self._client.now()))
        return True

    async def _look(self, account: str) -> Entry:
        asked_at = self._client.now()
        row = await answered(self._pause, lambda: self._client.row(ACCOUNTS, account))
        balance = int(row.fields["balance"])
        self._note(Looked(account, row.id, balance, asked_at, self._client.now()))
        return row

    def _put(self, row: Entry, attempt: str, change: int) -> dict[str, Any]:
        balance = str(int(row.fields["balance"]) + change)
        put = {"stream": ACCOUNTS, "key": row.fields[KEY_FIELD], "if_match": row.id}
        return {"put_row": {**put, "fields": {"balance": balance, "attempt": attempt}}}
