"""Every frame x every verb x whose stream, group and consumer it is, and the short forms."""

import json
from operator import itemgetter
from typing import Any, get_args

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from headgate.app.auth.grants import Verb
from headgate.app.live.frames.client import AnyClientFrame
from tests.api.auth.matrix import About, Case, cases_about
from tests.api.auth.secured import Secured

pytestmark = pytest.mark.asyncio(loop_scope="session")

STREAM: dict[str, Any] = {"type": "subscribe", "rid": "1", "sub": "s", "stream": "{s}"}
GROUP = {**STREAM, "group": "{g}", "consumer": "{c}"}
APPEND = {"type": "append", "rid": "1", "stream": "{s}", "entries": [{"fields": {"f": "v"}}]}

FRAMES = {
    "subscribe to a stream": (STREAM, Verb.READ),
    "subscribe to a group": (GROUP, Verb.CONSUME),
    "append": (APPEND, Verb.APPEND),
}

SHORT = {
    "socket of a stream": ("/v1/streams/{s}/ws", Verb.READ),
    "socket of a group": ("/v1/streams/{s}/groups/{g}/ws?consumer={c}", Verb.CONSUME),
}

OF_A_SUBSCRIPTION = frozenset({"unsubscribe", "credit", "ack", "nack", "extend"})
"""Frames about a subscription, which is there only if it is allowed."""

OPEN = frozenset({"ping", "auth"})


def filled(template: Any, about: About) -> str:
    text = template if isinstance(template, str) else json.dumps(template)
    for place, name in {"{s}": about.stream, "{g}": about.group, "{c}": about.consumer}.items():
        text = text.replace(place, name)
    return text


def is_allowed(template: Any, needed: Verb, verb: Verb, case: Case) -> bool:
    text = str(template)
    if verb is not needed or not case.is_own_stream:
        return False
    if case.groups is not None:
        return "{g}" in text and case.groups == ["g*"]
    if case.consumer is not None:
        return "{c}" in text and case.consumer == case.about.consumer
    return True


def asked(template: Any, needed: Verb) -> list[tuple[bool, Verb, Case]]:
    """Return each case with whether it is allowed: first those that change nothing."""
    cases = cases_about({needed})
    rows = [(is_allowed(template, needed, verb, case), verb, case) for verb, case in cases]
    return sorted(rows, key=itemgetter(0))


def opened(matrix: Secured, path: str, token: str) -> connect:
    headers = {"Authorization": f"Bearer {token}"}
    return connect(matrix.live.ws_url + path, additional_headers=headers)


async def answer_to(socket: ClientConnection) -> dict[str, Any]:
    """Return the answer to the frame with the rid 1."""
    while True:
        frame: dict[str, Any] = json.loads(await socket.recv())
        if frame.get("rid") == "1":
            return frame


async def test_the_matrix_has_every_frame() -> None:
    kinds = {
        get_args(model.model_fields["type"].annotation)[0]
        for model in get_args(get_args(AnyClientFrame)[0])
    }
    assert kinds == {"subscribe", "append"} | OF_A_SUBSCRIPTION | OPEN


@pytest.mark.parametrize("name", FRAMES)
async def test_a_frame_is_allowed_where_a_grant_says_so(
    name: str, matrix: Secured, keys: dict[tuple[Verb, str], str]
) -> None:
    template, needed = FRAMES[name]
    before = matrix.live.position
    for allowed, verb, case in asked(template, needed):
        async with opened(matrix, "/v1/ws", keys[verb, case.name]) as socket:
            await socket.send(filled(template, case.about))
            answer = await answer_to(socket)
        if allowed:
            assert answer["type"] != "problem", f"{verb}, {case.name}: {answer}"
        else:
            assert answer["problem"]["code"] == "forbidden", f"{verb}, {case.name}: {answer}"
            assert matrix.live.position == before


@pytest.mark.parametrize("name", SHORT)
async def test_a_short_form_is_allowed_where_a_grant_says_so(
    name: str, matrix: Secured, keys: dict[tuple[Verb, str], str]
) -> None:
    template, needed = SHORT[name]
    before = matrix.live.position
    for allowed, verb, case in asked(template, needed):
        async with opened(matrix, filled(template, case.about), keys[verb, case.name]) as socket:
            frames = [json.loads(await socket.recv()) for _ in range(2)]
            if allowed:
                assert frames[1]["type"] == "subscribed", f"{verb}, {case.name}: {frames}"
                continue
            assert frames[1]["problem"]["code"] == "forbidden", f"{verb}, {case.name}: {frames}"
            with pytest.raises(ConnectionClosed):
                await socket.recv()
            assert socket.close_code == 4403
        assert matrix.live.position == before


@pytest.mark.parametrize("path", ["/v1/ws", *(path for path, _ in SHORT.values())])
async def test_an_ended_key_opens_none(path: str, matrix: Secured, ended: dict[str, str]) -> None:
    for token in ended.values():
        async with opened(matrix, path.format(s="mine.a", g="g", c="me"), token) as socket:
            assert json.loads(await socket.recv())["problem"]["code"] == "unauthenticated"
            with pytest.raises(ConnectionClosed):
                await socket.recv()
        assert socket.close_code == 4401
