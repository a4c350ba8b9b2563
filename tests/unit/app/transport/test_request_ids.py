"""Ids of requests: the client's, if it is sane, or a new one."""

import uuid

import pytest

from headgate.app.transport.request_ids import id_of, new_id, sane_or_new


def test_new_ids_are_uuids_that_ascend() -> None:
    ids = [new_id() for _ in range(1000)]

    assert sorted(set(ids)) == ids
    assert {(each.version, each.variant) for each in map(uuid.UUID, ids)} == {(7, uuid.RFC_4122)}


def test_a_client_may_choose_an_id() -> None:
    assert id_of([(b"accept", b"*/*"), (b"x-request-id", b"checkout/42")]) == "checkout/42"


@pytest.mark.parametrize("chosen", [b"", b"a b", b"a\x1b[31m", b"\xe9", b"x" * 129])
def test_what_is_no_sane_id_is_replaced(chosen: bytes) -> None:
    assert uuid.UUID(sane_or_new(chosen)).version == 7
