"""Following a channel: its messages, and who is there."""

from collections.abc import AsyncGenerator, Callable, Iterator

from headgate.app.auth.access import Access
from headgate.app.auth.principal import Need
from headgate.app.channels.channels import Channels, Mailbox
from headgate.app.channels.member import Place, PlaceMember, PresenceRecord
from headgate.app.channels.message import ChannelMessage
from headgate.app.channels.presence import Handle, Presence
from headgate.app.live.followed import Followed, Heard, MembersPage, Ready
from headgate.app.live.intents import PresenceWish
from headgate.app.live.subscription import Subscription
from headgate.app.runtime.connections import OpenSubscription
from headgate.engine.entry import MIN_ID, EntryId


class ChannelSubscription(Subscription):
    """The messages of a channel as they come, with or without who is there.

    Of a stream it is only about who is there. What a slow client has not taken is bounded
    (`Mailbox`). Where a change of who is there may have been dropped, all are told again.
    """

    __slots__ = (
        "_channels",
        "_handle",
        "_is_busy",
        "_is_watching",
        "_mailbox",
        "_need",
        "_place",
        "_presence",
        "_send_at_once",
    )

    def __init__(
        self,
        access: Access,
        place: Place,
        need: Need,
        channels: Channels,
        presence: Presence,
        *,
        beat_ms: int | None = None,
    ) -> None:
        super().__init__(access, credit=None, beat_ms=beat_ms)
        self._place = place
        self._need = need
        self._channels = channels
        self._presence = presence
        self._send_at_once: Callable[[ChannelMessage], bool] = _cannot
        self._mailbox = Mailbox(channels, self._take_at_once)
        self._handle: Handle | None = None
        self._is_watching = False
        self._is_busy = True  # something is on its way to the client

    @property
    def need(self) -> Need:
        return self._need

    async def open(self) -> Ready:
        """Begin to listen; `leave` must be called in the end.

        Raises:
            GatewayError: it is not allowed, or there are too many subscriptions.
            Unavailable: the servers are not there.
        """
        self._access.require([self._need])
        if self._place.kind == "channel":
            await self._channels.listen(self._mailbox, self._place.name)
        return Ready(MIN_ID)

    def join(self, wish: PresenceWish, connection: str, now_ms: int) -> None:
        """Follow who is there, and be among them unless the wish says otherwise."""
        if not wish.is_hidden:
            principal = self._access.principal
            user = principal.user or (None if principal.is_anonymous else principal.id)
            self._handle = self._presence.join(
                PresenceRecord(
                    self._place,
                    user,
                    connection if wish.key is None else wish.key,
                    wish.data,
                    now_ms,
                )
            )
        self._is_watching = True
        self._presence.watch(self._place, self._mailbox)

    def change(self, data: bytes) -> bool:
        """Say something else of the connection; false if it is not present."""
        if self._handle is not None:
            self._handle.update(data)
        return self._handle is not None

    def leave(self, *, at_once: bool = False) -> None:
        """Listen no more. The connection is present for a while, unless it leaves `at_once`."""
        self._send_at_once = _cannot  # it knows the connection
        self._channels.leave(self._mailbox, self._place.name)
        self._presence.leave(self._place, self._mailbox)
        self._mailbox.close()
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.end(at_once=at_once)

    def send_at_once(self, send: Callable[[ChannelMessage], bool]) -> None:
        """Give each message to `send` while the client takes them; what it refuses is followed."""
        self._send_at_once = send

    def describe(self) -> OpenSubscription:
        return OpenSubscription(self._place.name, self._state)

    async def position(self) -> EntryId:
        return MIN_ID

    async def _sources(self) -> list[AsyncGenerator[Followed, None]]:
        return [self._coming()]

    async def _leave(self) -> None:
        """Do nothing: `leave` does it, also if nothing was followed."""

    async def _coming(self) -> AsyncGenerator[Followed, None]:
        tells_all = self._is_watching
        while True:
            self._is_busy = True  # what comes meanwhile waits in the mailbox
            if tells_all:
                for page in self._members():
                    yield page
            self._is_busy = self._mailbox.has_more
            message, _, dropped = await self._mailbox.next(within_ms=self._beat_ms)
            self._is_busy = True
            is_settled = message is not None and message.kind == "settled"
            tells_all = self._is_watching and (bool(dropped) or is_settled)
            if not is_settled and self._may_hear:
                yield Heard(message, dropped)

    def _members(self) -> Iterator[MembersPage]:
        pages = self._presence.members(self._place)
        page: list[PlaceMember] | None = next(pages, [])
        while page is not None:
            following = next(pages, None)
            yield MembersPage(page, following is not None, self._presence.is_settled)
            page = following

    @property
    def _may_hear(self) -> bool:
        return self._access.principal.may(self._need)

    def _take_at_once(self, message: ChannelMessage) -> bool:
        if self._is_busy or message.kind == "settled":
            return False
        return not self._may_hear or self._send_at_once(message)


def _cannot(_: ChannelMessage) -> bool:
    return False
