"""RESTORE over HTTP: payloads that are too large, and those for which there is no room now."""

from headgate.app.backends.payloads import PAYLOADS
from headgate.engine.limits import UNPACKED_BYTES_MAX, UNPACKED_ELEMENTS_MAX
from tests.api.conftest import Live
from tests.unit.app.rdb.bombs import BOMBS, dead_entries

URL = "/v1/commands/RESTORE/t/0"
BOMB = next(bomb.payload for bomb in BOMBS if bomb.name == "pending")


async def test_a_payload_without_room_is_refused_for_now(live: Live) -> None:
    with PAYLOADS.share() as others:
        others.take(UNPACKED_BYTES_MAX - 10)
        answer = await live.http.post(URL, content=BOMB)
    assert (answer.status_code, answer.json()["error"][:9]) == (503, "TRYAGAIN ")
    assert (await live.http.post(URL, content=BOMB)).json() == {"result": "OK"}
    assert PAYLOADS.size_bytes == 0


async def test_a_payload_that_is_too_large_is_refused(live: Live) -> None:
    elements = UNPACKED_ELEMENTS_MAX // 15 + 1
    answer = await live.http.post(URL, content=dead_entries(elements))
    assert (answer.status_code, "too large" in answer.json()["error"]) == (413, True)
    assert PAYLOADS.size_bytes == 0
