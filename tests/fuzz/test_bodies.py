"""Bodies of JSON and files of staged rows, whole and damaged, against what reads them at once."""

from __future__ import annotations

import asyncio
import json
import random
import struct
from contextlib import suppress
from typing import Any

import google_crc32c
import pytest
from fastapi.exceptions import RequestValidationError
from pydantic import TypeAdapter

from headgate.app.bulk import batch, staged
from headgate.app.bulk.batch import drafts_of
from headgate.app.bulk.staged import Rows, StagedDrafts
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.entries import EntryInput
from headgate.engine.entry import Draft, EntryId, PartialId
from headgate.engine.errors import StreamError
from tests.fuzz import rounds

_model = TypeAdapter(list[EntryInput])
_PARTS = ["", "a", "é", '"', "\\", "},{", '},{"', "]", "[[", "\n", "x" * 50, "\ud800"]
_DAMAGE = [b"", b"{", b"}", b"[", b"]", b",", b'"', b"\\", b"\n", b"\xff", b"1e999", b"null", b" "]


def entries_of(pick: random.Random) -> list[dict[str, Any]]:
    def text() -> str:
        return "".join(pick.choices(_PARTS[:-1], k=pick.randint(0, 3)))

    def entry() -> dict[str, Any]:
        pairs = [[text(), text()] for _ in range(pick.randint(1, 3))]
        made: dict[str, Any] = {"fields": dict(pairs)}
        if pick.random() < 0.2:
            made = {"pairs": pairs}
        if pick.random() < 0.2:
            made["id"] = pick.choice(["*", "5-*", "9-9", "x"])
        return made

    return [entry() for _ in range(pick.randint(1, 30))]


def damaged(body: bytes, pick: random.Random) -> bytes:
    for _ in range(pick.choice([0, 1, 1, 2])):
        at = pick.randint(0, len(body))
        body = body[:at] + pick.choice(_DAMAGE) + body[at + pick.randint(0, 2) :]
    return body


def at_once(body: bytes, *, is_lines: bool) -> list[Draft] | None:
    try:
        if is_lines:
            parts = body.split(b"\n")
            parts = parts if parts[-1].strip() else parts[:-1]
            entries = [EntryInput.model_validate_json(part) for part in parts]
        else:
            entries = _model.validate_json(body)
        return [entry.to_draft() for entry in entries] or None
    except (ValueError, GatewayError, StreamError):
        return None


def test_a_body_in_pieces_is_what_it_is_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in rounds.seeds(1000):
        pick = random.Random(seed)
        monkeypatch.setattr(batch, "PIECE_BYTES", pick.choice([1, 20, 100, 400]))
        monkeypatch.setattr(batch, "WHOLE_BYTES", pick.choice([1, 50, 200]))
        is_lines = pick.random() < 0.3
        separators = pick.choice([(",", ":"), (", ", ": "), (" ,\n", " : ")])
        texts = [json.dumps(entry) for entry in entries_of(pick)]
        body = "\n".join(texts) if is_lines else f"[{separators[0].join(texts)}]"
        wrong = damaged(body.encode(), pick)
        with rounds.ended(), rounds.reporting_seed(seed, wrong):
            try:
                drafts = asyncio.run(drafts_of(wrong, is_lines=is_lines, entries_max=1000))
            except (GatewayError, RequestValidationError, StreamError):
                assert at_once(wrong, is_lines=is_lines) is None
            else:
                assert drafts == at_once(wrong, is_lines=is_lines)


def test_staged_rows_are_read_or_missed() -> None:
    for seed in rounds.seeds(1000):
        pick = random.Random(seed)
        ids = [None, PartialId(5), EntryId(1, 2), EntryId(2**64 - 1, 2**64 - 1)]
        drafts = [
            Draft(pick.choice(ids), tuple(pick.choices([b"", b"a", b"\xff" * 40], k=2)))
            for _ in range(pick.randint(0, 20))
        ]
        streams = [pick.choice([b"s", b"t"]) for _ in drafts]
        file = staged.encode(Rows.of(streams, drafts))
        content = bytearray(file[4:])
        for _ in range(pick.choice([0, 1, 3])):
            content[pick.randrange(len(content))] = pick.randrange(256)
        # With a checksum that is right: nobody but the gateway makes such a file.
        changed = struct.pack("<I", google_crc32c.value(bytes(content))) + content
        with rounds.ended(), rounds.reporting_seed(seed, changed), suppress(ValueError, IndexError):
            taken = StagedDrafts()
            for rows in staged.decode(changed):
                taken.add(rows)
            if changed == file:
                assert sum(map(len, taken.drafts().values())) == len(drafts)
