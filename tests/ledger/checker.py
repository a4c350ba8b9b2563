"""Checker: whether each transfer was carried out once, all of it, and everybody was told the truth.

It knows what a bank is, and nothing of how a gateway works.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import NamedTuple

from tests.ledger.bank import BALANCE, KEY_FIELD, NAMES, Event, Looked, Told, Tried
from tests.ledger.client import Entry
from tests.processes.ledger import Id, id_of

REFUSALS = {"row_changed", "not_yours"}


class Books(NamedTuple):
    """The streams in the end."""

    accounts: Sequence[Entry]
    transfers: Sequence[Entry]
    done: Sequence[Entry]
    rows: Mapping[str, str]  # the id of each account's row
    left: int | None  # what the group of `transfers` has still to be given, or to settle


def violations(
    log: Sequence[Event], ordered: Mapping[str, Mapping[str, str]], books: Books
) -> list[str]:
    """Return the violations of the rules; none, if every transfer was carried out once.

    The books

    1. `accounts` begins with all accounts. Behind them a commit is whole: its rows are two, side by
       side, of the accounts of one transfer, and the entries of `done` have the same commits in the
       same order.
    2. Behind each commit the sum of all balances is what it was in the beginning.
    3. Each balance is the one before, less or more the amount of the transfer.
    4. Each transfer is done once, and what is done is a transfer.
    5. The row of an account is the last of its history.
    6. Nothing is left to be given or to be settled.

    What clients were told

    7. A transfer whose append was answered is there, as it was sent.
    8. A commit that was answered has appended what the answer says. One that was refused has
       appended nothing. Nothing is there that nobody has tried.
    9. A row that was read is in the history of its account, and no older than any whose commit had
       been answered before it was asked for.

    Args:
        log: what clients did and saw.
        ordered: the fields of the transfers, by the ids that were answered.
        books: the end.
    """
    opening, history = books.accounts[: len(NAMES)], books.accounts[len(NAMES) :]
    commits = {
        attempt: list(rows) for attempt, rows in groupby(history, lambda row: row.fields["attempt"])
    }
    transfers = {entry.id: entry.fields for entry in books.transfers}
    return [
        *_not_opened(opening),
        *_not_whole(history, commits, books.done, transfers),
        *_balances(commits, books.done, transfers),
        *_not_done_once(books.done, transfers),
        *_rows(books),
        *_left_behind(books),
        *_not_ordered(ordered, transfers),
        *_answers(log, commits, books.done),
        *_looks(log, opening, commits),
    ]


Commits = Mapping[str, Sequence[Entry]]
"""The rows of each attempt that is in the history, in order."""

Transfers = Mapping[str, Mapping[str, str]]
"""The fields of each transfer, by its id."""


def _not_opened(opening: Sequence[Entry]) -> Iterator[str]:
    opened = [(row.fields[KEY_FIELD], row.fields["balance"]) for row in opening]
    if opened != [(name, str(BALANCE)) for name in NAMES]:
        yield f"1: the history begins with {opened[:3]}"


def _not_whole(
    history: Sequence[Entry], commits: Commits, done: Sequence[Entry], transfers: Transfers
) -> Iterator[str]:
    if len(history) != sum(map(len, commits.values())):
        yield "1: rows of one attempt are not side by side"
    attempts = [entry.fields["attempt"] for entry in done]
    if attempts != list(commits):
        differing = sorted(set(attempts) ^ set(commits)) or "the order"
        yield f"1: done and the rows are of different commits: {differing}"
    for entry in done:
        transfer = transfers.get(entry.fields["transfer"], {})
        rows = commits.get(entry.fields["attempt"], ())
        if [row.fields[KEY_FIELD] for row in rows] != [transfer.get("from"), transfer.get("to")]:
            yield f"1: {entry} has the rows {rows}"


def _balances(commits: Commits, done: Sequence[Entry], transfers: Transfers) -> Iterator[str]:
    amounts = {
        entry.fields["attempt"]: int(transfers.get(entry.fields["transfer"], {}).get("amount", 0))
        for entry in done
    }
    balances = dict.fromkeys(NAMES, BALANCE)
    total = BALANCE * len(NAMES)
    for attempt, rows in commits.items():
        changed_by = 0
        for row, sign in zip(rows, (-1, 1), strict=False):
            account, balance = row.fields[KEY_FIELD], int(row.fields["balance"])
            expected = balances[account] + sign * amounts.get(attempt, 0)
            if balance != expected:
                yield f"3: {account} has {balance} behind {attempt}, and not {expected}"
            changed_by += balance - balances[account]
            balances[account] = balance
        total += changed_by
        if changed_by:
            yield f"2: behind {attempt} there are {total} in all"


def _not_done_once(done: Sequence[Entry], transfers: Transfers) -> Iterator[str]:
    counts = Counter(entry.fields["transfer"] for entry in done)
    for transfer in transfers.keys() | counts.keys():
        if transfer not in transfers:
            yield f"4: {transfer} was done, and is no transfer"
        elif counts[transfer] != 1:
            yield f"4: {transfer} was done {counts[transfer]} times"


def _rows(books: Books) -> Iterator[str]:
    last = {row.fields[KEY_FIELD]: row.id for row in books.accounts}
    for account in last.keys() | books.rows.keys():
        row = books.rows.get(account)
        if row != last.get(account):
            yield f"5: the row of {account} is {row}, and its last entry {last.get(account)}"


def _left_behind(books: Books) -> Iterator[str]:
    if books.left != 0:
        yield f"6: {books.left} are left"


def _not_ordered(ordered: Transfers, transfers: Transfers) -> Iterator[str]:
    for transfer, fields in ordered.items():
        if transfers.get(transfer) != fields:
            yield f"7: {transfer} is {transfers.get(transfer)}, and was ordered as {fields}"


def _answers(log: Sequence[Event], commits: Commits, done: Sequence[Entry]) -> Iterator[str]:
    tried = {event.attempt: event.transfer for event in log if isinstance(event, Tried)}
    made = {attempt: [row.id for row in rows] for attempt, rows in commits.items()}
    for entry in done:
        attempt = entry.fields["attempt"]
        made.setdefault(attempt, []).append(entry.id)
        if tried.get(attempt) != entry.fields["transfer"]:
            yield f"8: nobody has tried {entry}"
    for event in log:
        if not isinstance(event, Told):
            continue
        if event.refusal not in (None, *REFUSALS):
            yield f"8: {event.attempt} was refused: {event.refusal}"
        if event.ids != made.get(event.attempt, []):
            yield f"8: {event} has made {made.get(event.attempt)}"


def _looks(log: Sequence[Event], opening: Sequence[Entry], commits: Commits) -> Iterator[str]:
    told_at = {event.attempt: event.answered_at for event in log if isinstance(event, Told)}
    balances: dict[tuple[str, str], int] = {}
    told: defaultdict[str, list[tuple[int, Id]]] = defaultdict(list)
    for row in [*opening, *(row for rows in commits.values() for row in rows)]:
        account, attempt = row.fields[KEY_FIELD], row.fields["attempt"]
        balances[account, row.id] = int(row.fields["balance"])
        if attempt in told_at:
            told[account].append((told_at[attempt], id_of(row.id)))
    newest = {account: _newest(rows) for account, rows in told.items()}
    for event in log:
        if not isinstance(event, Looked):
            continue
        if balances.get((event.account, event.row)) != event.balance:
            yield f"9: {event} is not in the history"
        known = newest.get(event.account, [])
        before = bisect_left(known, (event.asked_at,))
        if before and known[before - 1][1] > id_of(event.row):
            yield f"9: {event} is older than {known[before - 1]}"


def _newest(told: Sequence[tuple[int, Id]]) -> list[tuple[int, Id]]:
    """Return the moments in order, each with the newest row that is known by then."""
    newest: list[tuple[int, Id]] = []
    for moment, row in sorted(told):
        newest.append((moment, max([row, *(known for _, known in newest[-1:])])))
    return newest
