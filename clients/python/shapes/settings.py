"""Settings of streams and groups, each with what it says.

`clients/generate_settings.py` writes this file.
"""

from typing import Annotated, Any, Literal, TypedDict

Retained = Literal["all", "latest"]


class StreamConfig(TypedDict, total=False):
    """Configuration of a stream: retention, idempotency keys and table. Null is the default."""

    max_length: Annotated[int | None, "Keep this many of the newest entries."]
    max_age_ms: Annotated[int | None, "Maximum age of entries, by the time in their ids."]
    idempotency_window_ms: Annotated[
        int | None, "How long an idempotency key is remembered. Default: 100 s."
    ]
    idempotency_max: Annotated[
        int | None,
        "Number of idempotency keys remembered per producer, the newest ones. Default: 100.",
    ]
    archive: Annotated[
        bool | None,
        "Archive the entries that retention and trims remove. They stay readable over REST.",
    ]
    local_bytes: Annotated[
        int | None,
        "Bytes of the newest entries that stay on the disk, if there is room, when older "
        "entries move to the bucket.",
    ]
    key_field: Annotated[
        str | None,
        "Makes the stream a table: the latest entry of each value of this field is a row."
        " Entries whose value has more than 1,024 bytes are in no row.",
    ]
    tombstone_field: Annotated[
        str | None,
        "Field that marks a removal: an entry with this field removes the row of its key."
        " Default: `deleted`.",
    ]
    retain: Annotated[
        Retained | None,
        "`latest` compacts the stream of a table. It removes an entry in the background "
        "once a later entry with the same key supersedes it and no group still has to "
        "read or settle it.",
    ]
    compact_after_ms: Annotated[
        int | None, "With `retain: latest`, the minimum age of entries to remove. Default: 1 hour."
    ]
    compact_unread: Annotated[
        bool | None, "With `retain: latest`, also remove entries that groups have not read yet."
    ]
    archived_until_ms: Annotated[
        int | None,
        "With `retain: latest`, remove only entries with ids below this unix time. Later "
        "entries are not archived yet. `headgate-pipeline trim --superseded` sets it.",
    ]
    tombstone_ms: Annotated[
        int | None,
        "With `retain: latest`, the age after which an entry that removed a row is "
        "removed itself. Default: 1 day.",
    ]


OnDisconnect = Literal["release", "keep"]

OnExpiry = Literal["settle", "dead_letter"]


class Policy(TypedDict, total=False):
    """Rules that a group applies automatically. All parts are optional and may be null."""

    claim_idle_ms: Annotated[
        int | None,
        "Default `claim_idle_ms` of reads: they take over entries that have been idle for"
        " this long.",
    ]
    max_deliveries: Annotated[
        int | None,
        "Number of deliveries after which an entry that fails is moved to `dead_letter_stream`.",
    ]
    dead_letter_stream: Annotated[
        str | None,
        "Stream for dead letters. Each has the fields of its entry, followed by "
        "`_stream`, `_id`, `_group`, `_deliveries` and `_reason`, and by `_error` if a "
        "nack gave an error.",
    ]
    backoff_ms: Annotated[
        list[int] | None, "Delays before the 2nd, 3rd, … delivery of a failed entry."
    ]
    max_pending: Annotated[int | None, "Maximum number of unacknowledged entries per consumer."]
    on_disconnect: Annotated[
        OnDisconnect | None,
        "What to do with a connection's unacknowledged entries when it ends for good.",
    ]
    consumer_ttl_ms: Annotated[
        int | None, "Idle time after which a consumer without pending entries is removed."
    ]
    filters: Annotated[
        list[dict[str, Any]] | None,
        "Filters on fields, in the dialects of CloudEvents subscriptions. The group skips"
        " entries that do not match all of them.",
    ]
    paused_until_ms: Annotated[int | None, "Unix time before which the group delivers nothing."]
    rate_per_s: Annotated[
        int | None, "Maximum number of entries that the group delivers per second."
    ]
    rate_burst: Annotated[
        int | None,
        "Maximum number of entries in a burst after a quiet time. Default: `rate_per_s`.",
    ]
    key_field: Annotated[
        str | None,
        "Deliver entries with the same value of this field in order: the next entry "
        "follows when the previous one is acknowledged or a dead letter.",
    ]
    key_pending_max: Annotated[
        int | None, "Maximum number of pending entries per value of `key_field`. Default: 1."
    ]
    key_ahead_max: Annotated[
        int | None,
        "Maximum number of entries held back until earlier entries with their value are "
        "settled. Default: 10,000; at most 100,000. At the limit, the group stops "
        "reading. With `fair_field`, number of entries indexed ahead. Default: "
        "10,000,000. Further entries wait in order.",
    ]
    on_expiry: Annotated[
        OnExpiry | None,
        "What to do with entries whose deadline has passed; `dead_letter` needs a "
        "`dead_letter_stream`.",
    ]
    fair_field: Annotated[
        str | None,
        "Values of this field take turns: however many entries one value has, the other "
        "values get their turns. Entries without the field share one turn.",
    ]
    weights: Annotated[dict[str, int] | None, "Number of entries per turn, by value. Default: 1."]
    priority_field: Annotated[
        str | None,
        "Field with a priority from 0 to 9. Entries with a higher priority are delivered "
        "first. Default: 0.",
    ]
    priority_age_ms: Annotated[
        int | None, "Waiting time after which an entry rises by one priority."
    ]
