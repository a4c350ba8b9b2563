"""The idempotency key of a request that appends: repeated under it, the request appends nothing."""

from collections.abc import Sequence
from typing import Annotated, NamedTuple

from fastapi import Depends, Header

from headgate.app.wire.problems import GatewayError
from headgate.app.wire.structure import DENSE_BYTES_MIN
from headgate.engine.entry import Draft, size_of
from headgate.engine.requests.idempotency import Digest, Idempotent
from headgate.engine.threads import this_turn

REPLAYED = {
    "Idempotent-Replayed": {
        "description": "`true`: nothing was appended; this is the result of the key's first use.",
        "schema": {"type": "string"},
    }
}
"""The header of an answer to a repeat."""


class WriterKey(NamedTuple):
    """The idempotency key of a request, and the producer that uses it."""

    producer: bytes
    key: bytes

    async def of(
        self, drafts: Sequence[Draft], *, is_batch: bool, digest: bytes = b""
    ) -> Idempotent:
        """Return the key with a digest of these drafts, computed in turns if there are many.

        `digest` is that of the drafts if it is known; they have no ids then. Raises GatewayError if
        a draft has an id: a repeat could not be answered by counting.
        """
        if digest:
            return Idempotent(self.producer, self.key, digest)
        turn, unfinished = this_turn(), Digest()
        for index, draft in enumerate(drafts):
            if draft.id is not None:
                text = "not allowed with an Idempotency-Key: the stream generates the id"
                pointer = f"/body/{index}/id" if is_batch else "/body/id"
                raise GatewayError("invalid_request", text, pointer=pointer)
            if size_of(draft.fields) > DENSE_BYTES_MIN:
                for _ in unfinished.adding(draft.fields):
                    await turn.pause()
            else:
                unfinished.add(draft.fields)
            if draft.timing is not None:  # no fields have this form
                unfinished.add((b"", repr(tuple(draft.timing)).encode(), b""))
            if turn.is_over:
                await turn.pause()
        return Idempotent(self.producer, self.key, unfinished.value())


def writer_key(
    idempotency_key: Annotated[
        str | None,
        Header(
            alias="Idempotency-Key",
            min_length=1,
            max_length=256,
            description="Identifies this append. If it is sent again with the same key, nothing "
            "is appended and the answer is that of the first append. `idempotency_window_ms` and "
            "`idempotency_max` of the stream limit how long a key is remembered.",
        ),
    ] = None,
    idempotency_producer: Annotated[
        str | None,
        Header(
            alias="Idempotency-Producer",
            min_length=1,
            max_length=256,
            description="Owner of the key. Keys are remembered separately for each producer.",
        ),
    ] = None,
) -> WriterKey | None:
    if idempotency_key is None:
        if idempotency_producer is not None:
            text = "a producer has no effect without an Idempotency-Key"
            raise GatewayError("invalid_request", text, pointer="/header/Idempotency-Producer")
        return None
    producer = idempotency_producer or ""  # nobody named: shared by all who name nobody
    return WriterKey(producer.encode("latin-1"), idempotency_key.encode("latin-1"))


WriterKeyDep = Annotated[WriterKey | None, Depends(writer_key)]
