"""Configuration of a stream and policy of a group: the declaration of each setting.

A setting is a field of a struct. Its type and its `About` say what users may write. Everything else
follows from them: patches, the form in the API and its document, the tables of the Lua functions,
flags of the command line, types of the clients.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from functools import cache
from typing import (
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    NewType,
    TypeVar,
    get_args,
    get_type_hints,
)

import msgspec

from headgate.engine.entry import Fields, value_of
from headgate.engine.limits import (
    AHEAD_DEFAULT,
    AHEAD_MAX,
    BACKOFFS_MAX,
    COUNT_MAX,
    FILTER_NODES_MAX,
    IDEMPOTENCY_KEYS_MAX,
    IDEMPOTENCY_WINDOW_MS_MAX,
    IDEMPOTENCY_WINDOW_MS_MIN,
    KEY_TURNS_MAX,
    RATE_MAX,
    ROW_KEY_BYTES_MAX,
    WEIGHT_MAX,
    WEIGHTS_MAX,
)

S = TypeVar("S", bound=msgspec.Struct)

OnDisconnect = Literal["release", "keep"]
"""Treatment of the entries that a connection leaves pending: its consumer may keep them."""


OnExpiry = Literal["settle", "dead_letter"]
"""Treatment of entries whose deadline is over: they are settled, or become dead letters first."""


Retained = Literal["all", "latest"]
"""What the stream of a table keeps: all entries, or the latest of each key."""


FieldName = NewType("FieldName", bytes)
"""The name of a field of entries."""


Weights = tuple[tuple[bytes, int], ...]
"""Values with their weights, in order of the values."""


class About(NamedTuple):
    description: str
    """For users."""

    minimum: int = 0
    """Of a number."""

    maximum: int = COUNT_MAX

    items_max: int = 1
    """Of numbers and filters: how many there may be."""

    words: tuple[str, ...] = ()
    """Of a choice: the words for False, which is the default, and True. Files have a boolean. A
    boolean without words is a flag."""


class Form(Enum):
    NUMBER = "number"
    NUMBERS = "list of numbers"
    STREAM = "stream"
    FIELD = "field"
    FILTERS = "list of filters"
    WEIGHTS = "weights of values"
    CHOICE = "choice"
    FLAG = "flag"


_FORMS = {
    int | None: Form.NUMBER,
    tuple[int, ...]: Form.NUMBERS,
    bytes | None: Form.STREAM,
    FieldName | None: Form.FIELD,
    str | None: Form.FILTERS,
    Weights: Form.WEIGHTS,
    bool: Form.CHOICE,
}


class Setting(NamedTuple):
    name: str
    form: Form
    about: About


TOMBSTONE_FIELD = b"deleted"
"""Unless a stream names another one."""


class StreamConfig(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    """The retention of a stream's entries and of its writers' keys; None is the default."""

    max_length: Annotated[int | None, About("Keep this many of the newest entries.")] = None
    max_age_ms: Annotated[
        int | None, About("Maximum age of entries, by the time in their ids.", 1)
    ] = None
    idempotency_window_ms: Annotated[
        int | None,
        About(
            "How long an idempotency key is remembered. Default: 100 s.",
            IDEMPOTENCY_WINDOW_MS_MIN,
            IDEMPOTENCY_WINDOW_MS_MAX,
        ),
    ] = None
    idempotency_max: Annotated[
        int | None,
        About(
            "Number of idempotency keys remembered per producer, the newest ones. Default: 100.",
            1,
            IDEMPOTENCY_KEYS_MAX,
        ),
    ] = None

    archive: Annotated[
        bool,
        About("Archive the entries that retention and trims remove. They stay readable over REST."),
    ] = False
    local_bytes: Annotated[
        int | None,
        About(
            "Bytes of the newest entries that stay on the disk, if there is room, when older "
            "entries move to the bucket.",
            1,
        ),
    ] = None

    key_field: Annotated[
        FieldName | None,
        About(
            "Makes the stream a table: the latest entry of each value of this field is a row. "
            f"Entries whose value has more than {ROW_KEY_BYTES_MAX:,} bytes are in no row."
        ),
    ] = None
    tombstone_field: Annotated[
        FieldName | None,
        About(
            "Field that marks a removal: an entry with this field removes the row of its key. "
            "Default: `deleted`."
        ),
    ] = None
    retain: Annotated[
        bool,
        About(
            "`latest` compacts the stream of a table. It removes an entry in the background once "
            "a later entry with the same key supersedes it and no group still has to read or "
            "settle it.",
            words=get_args(Retained),
        ),
    ] = False
    compact_after_ms: Annotated[
        int | None,
        About("With `retain: latest`, the minimum age of entries to remove. Default: 1 hour."),
    ] = None
    compact_unread: Annotated[
        bool, About("With `retain: latest`, also remove entries that groups have not read yet.")
    ] = False
    archived_until_ms: Annotated[
        int | None,
        About(
            "With `retain: latest`, remove only entries with ids below this unix time. Later "
            "entries are not archived yet. `headgate-pipeline trim --superseded` sets it."
        ),
    ] = None
    tombstone_ms: Annotated[
        int | None,
        About(
            "With `retain: latest`, the age after which an entry that removed a row is removed "
            "itself. Default: 1 day."
        ),
    ] = None

    @property
    def is_about_table(self) -> bool:
        """Tell whether a setting of its table is not the default."""
        return any(getattr(self, name) not in (None, False) for name in TABLE_SETTINGS)

    @property
    def row_fields(self) -> tuple[bytes, bytes] | None:
        """Return the fields of the key and of the tombstone; None: the stream is no table."""
        if self.key_field is None:
            return None
        return self.key_field, self.tombstone_field or TOMBSTONE_FIELD

    def row_of(self, fields: Fields) -> tuple[bytes, bool] | None:
        """Return the key of the row that an entry changes, and whether it removes that row."""
        names = self.row_fields
        key = None if names is None else value_of(fields, names[0])
        if names is None or key is None or len(key) > ROW_KEY_BYTES_MAX:
            return None
        return key, names[1] in fields[::2]

    @property
    def retains(self) -> bool:
        """Tell whether entries go by themselves."""
        return self.max_length is not None or self.max_age_ms is not None


TABLE_SETTINGS = (
    "key_field",
    "tombstone_field",
    "retain",
    "compact_after_ms",
    "compact_unread",
    "archived_until_ms",
    "tombstone_ms",
)
"""Settings of a stream that are about its table."""


class GroupPolicy(msgspec.Struct, frozen=True, array_like=True, omit_defaults=True):
    claim_idle_ms: Annotated[
        int | None,
        About(
            "Default `claim_idle_ms` of reads: they take over entries that have been idle for "
            "this long."
        ),
    ] = None
    max_deliveries: Annotated[
        int | None,
        About(
            "Number of deliveries after which an entry that fails is moved to "
            "`dead_letter_stream`.",
            1,
        ),
    ] = None
    dead_letter_stream: Annotated[
        bytes | None,
        About(
            "Stream for dead letters. Each has the fields of its entry, followed by `_stream`, "
            "`_id`, `_group`, `_deliveries` and `_reason`, and by `_error` if a nack gave an "
            "error."
        ),
    ] = None
    backoff_ms: Annotated[
        tuple[int, ...],
        About("Delays before the 2nd, 3rd, … delivery of a failed entry.", items_max=BACKOFFS_MAX),
    ] = ()
    max_pending: Annotated[
        int | None, About("Maximum number of unacknowledged entries per consumer.", 1)
    ] = None
    on_disconnect: Annotated[
        bool,
        About(
            "What to do with a connection's unacknowledged entries when it ends for good.",
            words=get_args(OnDisconnect),
        ),
    ] = False
    consumer_ttl_ms: Annotated[
        int | None, About("Idle time after which a consumer without pending entries is removed.", 1)
    ] = None
    filters: Annotated[
        str | None,
        About(
            "Filters on fields, in the dialects of CloudEvents subscriptions. The group skips "
            "entries that do not match all of them.",
            items_max=FILTER_NODES_MAX,
        ),
    ] = None
    paused_until_ms: Annotated[
        int | None, About("Unix time before which the group delivers nothing.")
    ] = None
    rate_per_s: Annotated[
        int | None,
        About("Maximum number of entries that the group delivers per second.", 1, RATE_MAX),
    ] = None
    rate_burst: Annotated[
        int | None,
        About(
            "Maximum number of entries in a burst after a quiet time. Default: `rate_per_s`.",
            1,
            RATE_MAX,
        ),
    ] = None
    key_field: Annotated[
        FieldName | None,
        About(
            "Deliver entries with the same value of this field in order: the next entry follows "
            "when the previous one is acknowledged or a dead letter."
        ),
    ] = None
    key_pending_max: Annotated[
        int | None,
        About(
            "Maximum number of pending entries per value of `key_field`. Default: 1.",
            1,
            KEY_TURNS_MAX,
        ),
    ] = None
    key_ahead_max: Annotated[
        int | None,
        About(
            "Maximum number of entries held back until earlier entries with their value are "
            "settled. Default: 10,000; at most 100,000. At the limit, the group stops reading. "
            "With `fair_field`, number of entries indexed ahead. Default: 10,000,000. Further "
            "entries wait in order.",
            1,
            AHEAD_MAX,
        ),
    ] = None

    on_expiry: Annotated[
        bool,
        About(
            "What to do with entries whose deadline has passed; `dead_letter` needs a "
            "`dead_letter_stream`.",
            words=get_args(OnExpiry),
        ),
    ] = False
    fair_field: Annotated[
        FieldName | None,
        About(
            "Values of this field take turns: however many entries one value has, the other "
            "values get their turns. Entries without the field share one turn."
        ),
    ] = None
    weights: Annotated[
        Weights,
        About(
            "Number of entries per turn, by value. Default: 1.",
            1,
            WEIGHT_MAX,
            items_max=WEIGHTS_MAX,
        ),
    ] = ()
    priority_field: Annotated[
        FieldName | None,
        About(
            "Field with a priority from 0 to 9. Entries with a higher priority are delivered "
            "first. Default: 0."
        ),
    ] = None
    priority_age_ms: Annotated[
        int | None, About("Waiting time after which an entry rises by one priority.", 1)
    ] = None

    @property
    def other_streams(self) -> list[bytes]:
        settings = settings_of(GroupPolicy).values()
        named = [getattr(self, each.name) for each in settings if each.form is Form.STREAM]
        return [name for name in named if name is not None]

    @property
    def is_fair(self) -> bool:
        """Tell whether entries are delivered in another order than that of their ids."""
        return self.fair_field is not None or self.priority_field is not None

    @property
    def ahead_max(self) -> int:
        return self.key_ahead_max or AHEAD_DEFAULT

    @property
    def key_turns(self) -> int | None:
        """Return how many entries of a key are pending at once; None: any number."""
        return None if self.key_field is None else self.key_pending_max or 1

    @property
    def acts_by_time(self) -> bool:
        """Tell whether something is to be done when nobody asks."""
        has_limit = self.max_deliveries is not None or self.consumer_ttl_ms is not None
        return has_limit or self.is_fair

    @property
    def has_rules(self) -> bool:
        """Tell whether new entries may have to wait, or are passed by."""
        return (
            self.filters is not None
            or self.paused_until_ms is not None
            or self.rate_per_s is not None
            or self.key_field is not None
            or self.is_fair
        )

    def on(self, stream: bytes) -> GroupPolicy:
        """Return the policy as it applies to a stream: none is its own dead letter stream.

        It may have been given that name after the policy was set.
        """
        if self.dead_letter_stream != stream:
            return self
        return msgspec.structs.replace(self, max_deliveries=None, dead_letter_stream=None)

    def is_spent(self, delivery_count: int) -> bool:
        return self.max_deliveries is not None and delivery_count >= self.max_deliveries

    def delay_ms(self, delivery_count: int) -> int:
        if not self.backoff_ms:
            return 0
        return self.backoff_ms[min(max(delivery_count, 1), len(self.backoff_ms)) - 1]


NO_POLICY: Final = GroupPolicy()
"""The policy of Redis: it does nothing by itself."""


class Patch(msgspec.Struct, Generic[S], frozen=True):
    values: S
    """Settings that are not named have their default here."""

    names: frozenset[str] = frozenset()

    @classmethod
    def of(cls, kind: type[S], **changes: Any) -> Patch[S]:
        return Patch(kind(**changes), frozenset(changes))

    @classmethod
    def to(cls, value: S) -> Patch[S]:
        """Return the patch that gives every setting the value that it has here."""
        return Patch(value, frozenset(value.__struct_fields__))

    def applied_to(self, value: S) -> S:
        new = {name: getattr(self.values, name) for name in self.names}
        return msgspec.structs.replace(value, **new)


@cache
def settings_of(kind: type[msgspec.Struct]) -> Mapping[str, Setting]:
    hints = get_type_hints(kind, include_extras=True)
    return {name: _setting(name, *get_args(hint)) for name, hint in hints.items()}


def _setting(name: str, hint: Any, about: About) -> Setting:
    form = Form.FLAG if hint is bool and not about.words else _FORMS[hint]
    return Setting(name, form, about)
