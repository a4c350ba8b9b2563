"""Settings of streams and groups, each with what it says.

`clients/generate_settings.py` writes this file.
"""

from typing import Annotated, Any, Literal, TypedDict

Retained = Literal["all", "latest"]


class StreamConfig(TypedDict, total=False):
    """The retention of a stream's entries and of its writers' keys; null is the default."""

    max_length: Annotated[int | None, "Keep the newest so many."]
    max_age_ms: Annotated[int | None, "Keep entries whose id is not older."]
    idempotency_window_ms: Annotated[
        int | None, "How long an idempotency key protects; 100 s unless given."
    ]
    idempotency_max: Annotated[
        int | None, "Keys remembered of each producer, the newest; 100 unless given."
    ]
    archive: Annotated[
        bool | None, "What its retention and trims remove stays readable over REST, as its archive."
    ]
    local_bytes: Annotated[
        int | None,
        "Of its newest entries, so many bytes stay on the disk when others leave it for "
        "the bucket, as far as there is room.",
    ]
    key_field: Annotated[
        str | None,
        "The stream is a table as well: the latest entry of each value of this field is a"
        " row. Entries with a value of more than 1,024 bytes are in no row.",
    ]
    tombstone_field: Annotated[
        str | None, "An entry with this field removes the row of its key; `deleted` unless given."
    ]
    retain: Annotated[
        Retained | None,
        "`latest` compacts the stream of a table: an entry is removed in the background "
        "once a later one with its key has superseded it and no group has to read or "
        "settle it.",
    ]
    compact_after_ms: Annotated[
        int | None,
        "With `retain: latest`, the minimum age of entries to remove; 1 hour unless given.",
    ]
    compact_unread: Annotated[
        bool | None, "With `retain: latest`, also remove entries that groups have not read yet."
    ]
    archived_until_ms: Annotated[
        int | None,
        "With `retain: latest`, remove only entries whose ids are below this unix time: "
        "later ones are not archived yet. `headgate-pipeline trim --superseded` sets it.",
    ]
    tombstone_ms: Annotated[
        int | None,
        "With `retain: latest`, the minimum age of an entry that removed a row before it "
        "is removed, too; 1 day unless given.",
    ]


OnDisconnect = Literal["release", "keep"]

OnExpiry = Literal["settle", "dead_letter"]


class Policy(TypedDict, total=False):
    """The policy of a group, which it follows by itself; every part may be left out or null."""

    claim_idle_ms: Annotated[
        int | None, "Reads that do not say it take over entries idle for so long."
    ]
    max_deliveries: Annotated[
        int | None, "An entry delivered so often goes to `dead_letter_stream` when it fails."
    ]
    dead_letter_stream: Annotated[
        str | None,
        "Where such entries go, with `_stream`, `_id`, `_group`, `_deliveries` and "
        "`_reason` behind their own fields; then `_error`, if a nack carried one.",
    ]
    backoff_ms: Annotated[
        list[int] | None, "How long a failed entry rests before its 2nd, 3rd … delivery."
    ]
    max_pending: Annotated[
        int | None, "A consumer with so many unacknowledged entries gets no more."
    ]
    on_disconnect: Annotated[
        OnDisconnect | None, "What becomes of a connection's unacknowledged entries in the end."
    ]
    consumer_ttl_ms: Annotated[
        int | None, "A consumer idle for so long, with nothing pending, is removed."
    ]
    filters: Annotated[
        list[dict[str, Any]] | None,
        "Conditions on fields, in the dialects of CloudEvents subscriptions, that all "
        "must hold. The group passes by entries that do not meet them.",
    ]
    paused_until_ms: Annotated[int | None, "The group delivers nothing before this unix time."]
    rate_per_s: Annotated[int | None, "The group delivers so many entries a second, at most."]
    rate_burst: Annotated[
        int | None, "So many may come at once after a rest; `rate_per_s` unless given."
    ]
    key_field: Annotated[
        str | None,
        "Entries with the same value of this field are delivered in order: the next one "
        "when the one before is acknowledged or a dead letter.",
    ]
    key_pending_max: Annotated[
        int | None, "So many with the same value are pending at once; 1 unless given."
    ]
    key_ahead_max: Annotated[
        int | None,
        "So many entries are held back until others with their value are settled; 10,000 "
        "unless given, 100,000 at most. The group reads no further then. With "
        "`fair_field`, so many are indexed ahead; 10,000,000 unless given. Those behind "
        "them wait in order.",
    ]
    on_expiry: Annotated[
        OnExpiry | None,
        "What becomes of entries whose deadline is over; `dead_letter` needs a "
        "`dead_letter_stream`.",
    ]
    fair_field: Annotated[
        str | None,
        "Values of this field take turns: however many entries wait with one value, those"
        " with another come next. Entries without the field share one turn.",
    ]
    weights: Annotated[
        dict[str, int] | None, "So many entries of a value in its turn, by value; 1 of all others."
    ]
    priority_field: Annotated[
        str | None,
        "Entries with a higher digit, 0 to 9, in this field come first; 0 if there is none.",
    ]
    priority_age_ms: Annotated[int | None, "An entry that waits rises by one priority in so long."]
