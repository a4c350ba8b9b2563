"""Server-Sent Events, however the network cuts them."""

import pytest

from headgate.app.cli.follow import Event, events_in

TEXT = (
    'event: ready\ndata: {"position":"0-0"}\nretry: 1500\n\n'
    ": heartbeat\n\n"
    'event: entry\ndata: {"id":"1-0","fields":{"ä":"😀"}}\nid: 1-0\n\n'
    'event: caught_up\ndata: {"at":"1-0"}\n\n'
).encode()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 64, 1000])
def test_events_are_whole_however_they_come(size: int) -> None:
    chunks = [TEXT[start : start + size] for start in range(0, len(TEXT), size)]

    whole = [event for events in events_in(chunks) for event in events]

    assert whole == [
        Event("ready", '{"position":"0-0"}'),
        Event("entry", '{"id":"1-0","fields":{"ä":"😀"}}'),
        Event("caught_up", '{"at":"1-0"}'),
    ]


def test_an_event_that_was_cut_off_is_none() -> None:
    assert list(events_in([TEXT[:20]])) == [[]]
