"""Shared: the history that another process of the gateway keeps."""

from __future__ import annotations

from typing import Final

import msgspec

from headgate.app.measuring.recorder import HISTORY, HistoryPart, HistoryQuestion
from headgate.app.runtime.siblings import Siblings
from headgate.engine.errors import Unavailable

_WITHIN_S: Final = 5.0

encode_question = msgspec.msgpack.Encoder().encode
decode_question = msgspec.msgpack.Decoder(HistoryQuestion).decode
encode_answer = msgspec.msgpack.Encoder().encode
_decode_answer = msgspec.msgpack.Decoder(HistoryPart).decode


class SharedHistory:
    """Asks the process that keeps the history."""

    def __init__(self, siblings: Siblings) -> None:
        """Ask over what connects the processes."""
        self._siblings = siblings

    async def read(self, question: HistoryQuestion) -> HistoryPart:
        """Return a part of the history.

        Raises:
            Unavailable: the process that has it does not answer.
        """
        body = encode_question(question)
        answers = await self._siblings.gather(HISTORY, body, within_s=_WITHIN_S)
        if not answers or not answers[0]:
            raise Unavailable("the other processes of the gateway do not answer")
        return _decode_answer(answers[0])
