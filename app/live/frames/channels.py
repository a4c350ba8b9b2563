"""Frames of channels: the same text for all who are sent the same, made once."""

import msgspec

from headgate.app.channels.message import ChannelMessage
from headgate.app.live.followed import Heard, MembersPage
from headgate.app.wire.names import text_of

_TEXTS_MAX = 4
"""Texts that a message remembers: most clients have the same name for their subscription."""

_encode = msgspec.json.Encoder().encode


def message_frame(sub: str, message: ChannelMessage, dropped_count: int = 0) -> str:
    """Return the frame of a message, or of a change of who is there."""
    by = "frame", sub, dropped_count
    text = message.texts.get(by)
    if text is None:
        text = _text(sub, message, dropped_count)
        if len(message.texts) < _TEXTS_MAX:
            message.texts[by] = text
    return text


def _text(sub: str, message: ChannelMessage, dropped_count: int) -> str:
    if message.kind == "presence":  # an object with the event and the member
        return f'{{"type":"presence","sub":{_json(sub)},{message.data[1:].decode()}'
    names = f'"sub":{_json(sub)},"channel":{_json(text_of(message.channel))}'
    dropped = f',"dropped":{dropped_count}' if dropped_count else ""
    return f'{{"type":"message",{names},"data":{message.json.decode()}{dropped}}}'


def heard_frame(sub: str, heard: Heard | MembersPage) -> str:
    """Return the frame of what a subscription yields, but for a heartbeat."""
    if isinstance(heard, Heard):
        assert heard.message is not None
        return message_frame(sub, heard.message, heard.dropped_count)
    members, has_more, is_settled = heard
    frame = {"type": "members", "sub": sub, "members": members, "more": has_more}
    return _json({**frame, "settled": is_settled})


def _json(value: object) -> str:
    return _encode(value).decode()
