"""The meaning and the remedy of each problem code, for the pages about them."""

from __future__ import annotations

from typing import NamedTuple

from headgate.app.wire.problems import Code


class Explanation(NamedTuple):
    """The content of a page about a problem."""

    meaning: str
    causes: tuple[str, ...]
    remedy: str


_AGAIN = (
    "Send the same request again after `retry_after_ms`. The Headgate clients do so automatically."
)

EXPLANATIONS: dict[Code, Explanation] = {
    "malformed": Explanation(
        "The gateway cannot read the body or a parameter.",
        (
            "The body is not valid JSON, NDJSON or Arrow.",
            "The shell removed quotation marks: put the body of `curl -d` in single quotes.",
        ),
        "See `errors`: each `pointer` names a place, such as `/body/entries/3`.",
    ),
    "invalid_id": Explanation(
        "A value is not a valid entry id.",
        ("An id has the form `<milliseconds>-<sequence>`, such as `1718000000000-0`.",),
        "Send ids exactly as the gateway returned them. In a range, `-` and `+` stand for the "
        "ends.",
    ),
    "consumer_required": Explanation(
        "The request acts as a consumer of a group but does not name the consumer.",
        ("The query parameter `consumer` and the header `Headgate-Consumer` are both missing.",),
        "Add `?consumer=NAME` to the URL, with any name. The gateway creates the consumer at its "
        "first use.",
    ),
    "consumer_conflict": Explanation(
        "The request names two different consumers.",
        ("The query parameter `consumer` and the header `Headgate-Consumer` differ.",),
        "Send only one of them.",
    ),
    "unauthenticated": Explanation(
        "The gateway requires a credential, and the request has no valid one.",
        (
            "The header `Authorization: Bearer …` is missing.",
            "The key was deleted, or the token has expired or comes from an unknown issuer.",
        ),
        "Send a key (create one with `headgate keys add`) or a token from an issuer that the "
        "gateway trusts.",
    ),
    "forbidden": Explanation(
        "The credential is valid but does not allow this request.",
        ("Its grants cover other streams or other verbs: read, append, consume, manage.",),
        "Ask the operator for a grant. `headgate keys list` shows what each key allows.",
    ),
    "origin_refused": Explanation(
        "The gateway does not serve pages of this origin, or requests for this host name.",
        (
            "The page comes from a different site than the gateway.",
            "The request used a host name that the gateway does not accept.",
        ),
        "The operator can allow both: `--allow-origin https://app.example` and `--allow-host "
        "NAME`.",
    ),
    "stream_not_found": Explanation(
        "The stream does not exist.",
        (
            "Nothing was ever appended to it, or it was deleted.",
            "Its name is encoded twice in the path, or not at all: a space is `%20`.",
        ),
        "Append an entry, or create the stream with PUT.",
    ),
    "group_not_found": Explanation(
        "The stream exists but has no group of this name.",
        ("The group was never created, or it was deleted together with its stream.",),
        "Create it: `PUT /v1/streams/{stream}/groups/{group}` with `start` and `create_stream`.",
    ),
    "entry_not_found": Explanation(
        "The stream has no entry with this id.",
        ("The entry was deleted or trimmed.",),
        "You need not do anything, unless the stream should keep more entries: see its `config`.",
    ),
    "entry_referenced": Explanation(
        "The entry was not deleted because groups still have to acknowledge it.",
        ("The request has `references=acked`.",),
        "Delete the entry after all groups have acknowledged it, or use `references=delete`.",
    ),
    "not_found": Explanation(
        "This path does not exist.",
        ("The path is misspelled, or a proxy changed it.",),
        "`/docs` lists all operations.",
    ),
    "method_not_allowed": Explanation(
        "The path exists but does not support this method.",
        ("GET never changes anything, so reading as a consumer of a group requires POST.",),
        "See the header `Allow` for the supported methods.",
    ),
    "not_acceptable": Explanation(
        "The operation cannot answer with any media type in `Accept`.",
        ("Only some operations can answer NDJSON or Arrow.",),
        "Omit `Accept`, or look up the operation in `/docs`.",
    ),
    "group_exists": Explanation(
        "The group already exists with a different policy.",
        ("Two programs create the same group with different policies.",),
        "Change the policy with PATCH, or create the group with its current policy.",
    ),
    "stream_exists": Explanation(
        "The stream already exists with a different configuration.",
        ("Two programs create the same stream with different configurations.",),
        "Change the configuration with PATCH.",
    ),
    "stream_closed": Explanation(
        "The stream is closed and accepts no more entries.",
        ("Another client closed the stream, and this writer does not know.",),
        "Append to another stream. A closed stream cannot be reopened: delete it, or copy it "
        "(COPY).",
    ),
    "content_type_mismatch": Explanation(
        "The content type does not match. A durable stream keeps the content type that it was "
        "created with.",
        ("A library sets a default type, such as `text/plain` for strings.",),
        "Send the `Content-Type` that `HEAD` returns for the stream.",
    ),
    "out_of_sequence": Explanation(
        "An append to a durable stream is not the next one expected from its writer.",
        (
            "An earlier append has not arrived or was not sent.",
            "Another writer used a greater `Stream-Seq`.",
        ),
        "Send the missing appends first: `Producer-Expected-Seq` says where to start. Each "
        "`Stream-Seq` must be greater than the last one, compared as text.",
    ),
    "producer_fenced": Explanation(
        "Another producer with this name has started a later epoch.",
        ("The program was restarted, and the old process is still writing.",),
        "Stop writing. If this process should continue, start an epoch above the `Producer-Epoch` "
        "of the answer, with `Producer-Seq` 0.",
    ),
    "gone": Explanation(
        "The requested position or stream no longer exists.",
        (
            "Entries after the offset were trimmed.",
            "The stream was deleted, but forks of it still exist.",
            "The API key to be rotated is revoked or has expired.",
        ),
        "Read from the beginning (`offset=-1`, or the first page of a table), or use another path. "
        "Create a new key.",
    ),
    "wrong_type": Explanation(
        "A key at the Redis server holds a value that the gateway did not write.",
        (
            "Another program stores a string, a list or a set under the name of the stream.",
            "Another program wrote to a key of the gateway (`hg:…`).",
        ),
        "Inspect the key that `detail` names, and rename or delete it at the server.",
    ),
    "id_not_greater": Explanation(
        "The id of a new entry is not greater than the last id of the stream.",
        (
            "Several programs append with their own ids, and another one was faster.",
            "The entry was already appended, but the answer was lost.",
        ),
        "Let the gateway generate ids (`*`), or continue from `last_id`.",
    ),
    "staged_missing": Explanation(
        "The batch cannot be committed because one of its chunks is missing.",
        ("The chunk was sent more than an hour ago, or the gateway has restarted since.",),
        "Send the chunks again, then commit.",
    ),
    "limit_reached": Explanation(
        "The maximum number of streams, groups, consumers or producers is reached.",
        ("A program creates new names all the time, such as a consumer for each request.",),
        "Reuse names, or delete what is unused. `GET /v1/limits` lists the limits.",
    ),
    "last_id_mismatch": Explanation(
        "The request has `If-Match`, but entries were appended in the meantime.",
        ("Another program also appends to the stream.",),
        "Read the new entries, then append with the new `last_id`.",
    ),
    "too_large": Explanation(
        "The request or its answer exceeds a size limit.",
        (
            "A batch has too many entries, or a body has too many bytes.",
            "The request reads a large range at once instead of page by page.",
        ),
        "Send or read less at a time. `GET /v1/limits` lists the limits.",
    ),
    "unsupported_media_type": Explanation(
        "The operation does not accept the media type of the body, or the request does not name "
        "one.",
        ("`curl -d` sends a form by default.",),
        "Send `Content-Type: application/json`. Pages of other sites cannot send it, which "
        "protects you.",
    ),
    "header_too_large": Explanation(
        "The headers of the request are too large.",
        ("A cookie or a token is very large.",),
        "Send fewer or shorter headers.",
    ),
    "invalid_request": Explanation(
        "Some fields of the request are invalid.",
        ("A name is misspelled. The gateway refuses unknown fields to reveal such mistakes.",),
        "See `errors`: each `pointer` names a field, and `detail` says what is expected.",
    ),
    "idempotency_mismatch": Explanation(
        "The idempotency key was already used for a different entry.",
        ("A program uses the same key for different entries.",),
        "Use a new key for each entry. Repeat a key only to send the same entry again.",
    ),
    "too_many_waiters": Explanation(
        "Too many reads are waiting at the same time.",
        ("Clients start reads and do not end them.",),
        _AGAIN,
    ),
    "too_many_connections": Explanation(
        "The principal has reached its limit of connections, waiting reads or subscriptions.",
        ("A client opens a connection for each request and does not close it.",),
        "Share one connection: a WebSocket carries many subscriptions.",
    ),
    "rate_limited": Explanation(
        "The principal exceeds its rate limit.",
        ("Its limit of requests, entries or bytes per second is too low for its use.",),
        f"{_AGAIN} Batches need fewer requests.",
    ),
    "overloaded": Explanation(
        "The gateway is overloaded.", ("Many clients send large bodies at the same time.",), _AGAIN
    ),
    "unavailable": Explanation(
        "The gateway cannot make changes durable at the moment. Reads still work.",
        ("The disk is full or failing, or a server of the backend is unreachable.",),
        f"{_AGAIN} Operators can see the cause at `/readyz`.",
    ),
    "not_leader": Explanation(
        "This gateway is a standby: another gateway on the same bucket is the leader.",
        ("A load balancer sends requests to a gateway whose `/readyz` does not answer 200.",),
        "Send the request to the gateway in `leader`. The Headgate clients accept a list of "
        "addresses and find the leader automatically. During a failover: "
        f"{_AGAIN[0].lower()}{_AGAIN[1:]}",
    ),
    "draining": Explanation(
        "The gateway is shutting down.", ("It is being restarted or updated.",), _AGAIN
    ),
    "cut_off": Explanation(
        "An operator closed the connection.",
        (
            "The connection held entries that other consumers should get, or its client was stuck.",
            "The connection had to move to another process or machine.",
        ),
        "Connect again. To keep a client out, the operator revokes its key.",
    ),
    "memory_full": Explanation(
        "The streams have reached their memory limit, so appends are refused.",
        ("Streams without `max_length` or `max_age_ms` keep growing.",),
        "Trim the streams, or configure them to trim themselves. `HEADGATE_FULL=trim_oldest` "
        "trims the oldest entries automatically.",
    ),
    "extra_missing": Explanation(
        "This request needs an optional package that is not installed.",
        ("Arrow bodies need pyarrow.",),
        "The operator installs the package: `pip install -e '.[arrow]'`.",
    ),
    "not_supported": Explanation(
        "The backend of this gateway does not support this.",
        (
            "Redis or Valkey stores the streams, but the request needs the embedded engine.",
            "`archive` needs an engine with a bucket behind its data directory.",
            "API keys cannot be changed over the API, because the keys file is read-only.",
        ),
        "`GET /v1/limits` lists the abilities.",
    ),
    "internal": Explanation(
        "The gateway has a bug. Only changes that it had already confirmed were made.",
        ("`detail` contains the number of the incident. The log of the gateway has the details.",),
        "Report the number to the operator.",
    ),
    "row_changed": Explanation(
        "The row of the table is not in the state that the request expects.",
        (
            "`If-Match` names an entry that is no longer the row: the row was changed or removed.",
            "The request has `If-None-Match: *`, but the row exists.",
        ),
        "See `row` for the current row. Apply your change to it, and send it again with "
        "`If-Match` and the id of that row.",
    ),
    "not_yours": Explanation(
        "The commit settles entries that are not pending with its consumer. Nothing was changed.",
        (
            "The work outlasted the claim time of the group, so another consumer has the entry.",
            "The entry was delivered again, so the count in `deliveries` is out of date.",
            "The entry was already settled, possibly by a commit whose answer was lost.",
        ),
        "See `held` for who holds each entry. Discard your result: the consumer that holds the "
        "entry produces it. During long work, extend your entries. Send an `Idempotency-Key` so "
        "that you can repeat a commit.",
    ),
    "last_admin_key": Explanation(
        "The key is the last active one with `admin`. Without it, nobody could manage keys over "
        "the API.",
        ("All other keys with `admin` are revoked or have expired.",),
        "Create another key with `admin` first. `headgate keys revoke` revokes the last one, too.",
    ),
}
