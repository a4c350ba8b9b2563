"""Dependencies of routes: the backend, the limits, names from the path, the consumer."""

import base64
import binascii
from collections.abc import Sequence
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

from fastapi import Depends, Header, Path, Query
from starlette.requests import HTTPConnection

from headgate.app.auth.access import Access
from headgate.app.automation.push_acts import PushTools
from headgate.app.gateway.gateway import Gateway
from headgate.app.wire.names import NameText, PatternText, check_name, check_pattern
from headgate.app.wire.problems import GatewayError
from headgate.app.wire.schemas.limits import Limits


def gateway_of(connection: HTTPConnection) -> Gateway:
    gateway: Gateway = connection.scope["state"]["gateway"]
    return gateway


def access_of(connection: HTTPConnection) -> Access:
    access: Access = connection.scope["access"]
    return access


def limits_of(connection: HTTPConnection) -> Limits:
    """Return the limits of a request; one that the gateway makes by itself may have its own."""
    limits: Limits | None = connection.scope.get("limits")
    return gateway_of(connection).limits if limits is None else limits


def stream_name(
    stream: Annotated[NameText, Path(description="Name of the stream.", examples=["orders"])],
) -> bytes:
    return check_name(stream, pointer="/path/stream")


def group_name(
    group: Annotated[NameText, Path(description="Name of the group.", examples=["billing"])],
) -> bytes:
    return check_name(group, pointer="/path/group")


def stream_pattern(
    match: Annotated[PatternText, Query(description="A Redis glob pattern, such as `orders.*`.")],
) -> bytes:
    return check_pattern(match, pointer="/query/match")


def consumer_path(
    consumer: Annotated[NameText, Path(description="Name of the consumer.", examples=["worker-1"])],
) -> bytes:
    return check_name(consumer, pointer="/path/consumer")


def named_consumer(
    consumer: Annotated[
        NameText | None,
        Query(description="Name of the consumer. It can also be given in `Headgate-Consumer`."),
    ] = None,
    headgate_consumer: Annotated[
        NameText | None, Header(alias="Headgate-Consumer", description="Name of the consumer.")
    ] = None,
) -> bytes | None:
    """Return the consumer named by query or header, if any; GatewayError if they differ."""
    # A header arrives as latin-1; what was sent is UTF-8.
    header = headgate_consumer and headgate_consumer.encode("latin-1").decode(errors="replace")
    if consumer is not None and header is not None and consumer != header:
        text = "the query and the header Headgate-Consumer name different consumers"
        raise GatewayError("consumer_conflict", text, pointer="/query/consumer")
    if consumer is not None:
        return check_name(consumer, pointer="/query/consumer")
    if header is not None:
        return check_name(header, pointer="/header/Headgate-Consumer")
    return None


def required_consumer(consumer: Annotated[bytes | None, Depends(named_consumer)]) -> bytes:
    """Return the consumer that the request names; raises GatewayError if there is none."""
    if consumer is None:
        text = "name the consumer with ?consumer=NAME or the header Headgate-Consumer: NAME"
        raise GatewayError("consumer_required", text, pointer="/query/consumer")
    return consumer


def push_tools(request: HTTPConnection) -> PushTools:
    gateway = gateway_of(request)
    return PushTools(
        gateway.backend.perform,
        gateway.targets,
        gateway.sealing,
        gateway.auth.now_ms,
        gateway.sender,
    )


AccessDep = Annotated[Access, Depends(access_of)]
ToolsDep = Annotated[PushTools, Depends(push_tools)]
LimitsDep = Annotated[Limits, Depends(limits_of)]
StreamDep = Annotated[bytes, Depends(stream_name)]
GroupDep = Annotated[bytes, Depends(group_name)]
PatternDep = Annotated[bytes, Depends(stream_pattern)]
ConsumerPathDep = Annotated[bytes, Depends(consumer_path)]
ConsumerDep = Annotated[bytes, Depends(required_consumer)]
OptionalConsumerDep = Annotated[bytes | None, Depends(named_consumer)]


def check_at_most(value: int, limit: int, *, pointer: str) -> None:
    if value > limit:
        raise GatewayError(
            "invalid_request", f"should be at most {limit}, not {value}", pointer=pointer
        )


class _Named(Protocol):
    @property
    def name(self) -> bytes: ...


T = TypeVar("T", bound=_Named)

CURSOR = Query(description="`next_cursor` of the previous page.")


class Page(NamedTuple):
    after: bytes | None
    limit: int

    @property
    def with_one_more(self) -> dict[str, Any]:
        """Return the arguments for the backend's list; one extra item shows if a page follows."""
        return {"after": self.after, "limit": self.limit + 1}

    def of(self, items: Sequence[T]) -> tuple[Sequence[T], str | None]:
        page = items[: self.limit]
        return page, cursor_of(page[-1].name) if len(items) > self.limit else None


def page_after(cursor: str | None, limit: int) -> Page:
    """Return the page that a cursor asks for; raises GatewayError if it is not ours."""
    return Page(None if cursor is None else _name(cursor), limit)


def _as_many_as_allowed(
    limits: LimitsDep,
    limit: Annotated[
        int | None,
        Query(ge=1, description="Maximum number of items per page. Default: as many as allowed."),
    ] = None,
    cursor: Annotated[str | None, CURSOR] = None,
) -> Page:
    check_at_most(limit or 1, limits.read_entries_max, pointer="/query/limit")
    return page_after(cursor, limit or limits.read_entries_max)


PageDep = Annotated[Page, Depends(_as_many_as_allowed)]
"""A page of a list that was once told as a whole: it still is, if it is not too long."""


def cursor_of(name: bytes) -> str:
    return base64.urlsafe_b64encode(name).decode()


def _name(cursor: str) -> bytes:
    try:
        return base64.b64decode(cursor, altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        text = "not a cursor of this gateway"
        raise GatewayError("invalid_request", text, pointer="/query/cursor") from None
