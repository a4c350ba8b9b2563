"""The meaning and the remedy of each problem code, for the pages about them."""

from __future__ import annotations

from typing import NamedTuple

from headgate.app.wire.problems import Code


class Explanation(NamedTuple):
    """The content of a page about a problem."""

    meaning: str
    causes: tuple[str, ...]
    remedy: str


_AGAIN = "Send the same request again after `retry_after_ms`. Our clients do so by themselves."

EXPLANATIONS: dict[Code, Explanation] = {
    "malformed": Explanation(
        "The body or a parameter cannot be read.",
        (
            "The body is not JSON, not NDJSON, or not an Arrow stream.",
            "A shell has removed quotation marks: put the body of `curl -d` in single quotes.",
        ),
        "Look at `errors`: each `pointer` names the place, such as `/body/entries/3`.",
    ),
    "invalid_id": Explanation(
        "A text that should be an entry id is none.",
        ("An id is `<milliseconds>-<sequence>`, such as `1718000000000-0`.",),
        "Send ids as the gateway has returned them. In a range `-` and `+` are the ends.",
    ),
    "consumer_required": Explanation(
        "The request acts as a consumer of a group, and names none.",
        ("The query parameter `consumer` and the header `Headgate-Consumer` are missing.",),
        "Add `?consumer=NAME` to the URL. Any name will do; it is created when it is first used.",
    ),
    "consumer_conflict": Explanation(
        "The request names two consumers.",
        ("The query parameter `consumer` and the header `Headgate-Consumer` differ.",),
        "Send one of them.",
    ),
    "unauthenticated": Explanation(
        "The gateway asks for a credential, and there is none that is valid.",
        (
            "The header `Authorization: Bearer …` is missing.",
            "The key was deleted, or the token has ended or is of an issuer that is not known.",
        ),
        "Send a key (`headgate keys create`) or a token of an issuer that the operator has set.",
    ),
    "forbidden": Explanation(
        "The credential is valid, and does not allow this.",
        ("Its grants name another stream, or another verb: read, append, consume, manage.",),
        "Ask the operator for a grant. `headgate keys list` shows what each key may do.",
    ),
    "origin_refused": Explanation(
        "A page of this origin, or a request for this host name, is not served.",
        (
            "The page is on another site than the gateway.",
            "The gateway was reached by a host name that it does not answer to.",
        ),
        "The operator allows them: `--allow-origin https://app.example` and `--allow-host NAME`.",
    ),
    "stream_not_found": Explanation(
        "The stream does not exist.",
        (
            "It was never appended to, or it was deleted.",
            "Its name is encoded twice, or not at all: a blank is `%20` in a path.",
        ),
        "Append an entry, or create the stream with PUT.",
    ),
    "group_not_found": Explanation(
        "The stream exists, and has no such group.",
        ("The group was not created, or was deleted with its stream.",),
        "Create it: `PUT /v1/streams/{stream}/groups/{group}` with `start` and `create_stream`.",
    ),
    "entry_not_found": Explanation(
        "The stream has no entry of this id.",
        ("It was deleted, or trimming took it.",),
        "Nothing has to be done, unless the stream keeps less than it should: see its `config`.",
    ),
    "entry_referenced": Explanation(
        "Groups still have to acknowledge the entry, so it was not deleted.",
        ("The request has `references=acked`.",),
        "Delete it when all groups have acknowledged it, or with `references=delete`.",
    ),
    "not_found": Explanation(
        "There is nothing at this path.",
        ("The path is misspelt, or a proxy has changed it.",),
        "`/docs` lists all operations.",
    ),
    "method_not_allowed": Explanation(
        "The path exists, and does not have this method.",
        ("GET changes nothing here, so reading as a consumer of a group is POST.",),
        "The header `Allow` lists the methods.",
    ),
    "not_acceptable": Explanation(
        "The operation has no answer of a media type that `Accept` names.",
        ("Only some operations answer NDJSON or Arrow.",),
        "Leave `Accept` out, or look at the operation in `/docs`.",
    ),
    "group_exists": Explanation(
        "The group exists with another policy.",
        ("Two programs create the same group with different rules.",),
        "Change the policy with PATCH, or create the group with the policy it has.",
    ),
    "stream_exists": Explanation(
        "The stream exists with another configuration.",
        ("Two programs create the same stream with different settings.",),
        "Change the configuration with PATCH.",
    ),
    "stream_closed": Explanation(
        "The stream is closed: it takes no entries any more.",
        ("Somebody has closed it, and this writer has not been told.",),
        "Append to another stream. A stream is never opened again: delete it, or copy it (COPY).",
    ),
    "content_type_mismatch": Explanation(
        "A durable stream has one content type for its whole life, and this is another.",
        ("A library says a type by itself, such as `text/plain` for a text.",),
        "Send the `Content-Type` that `HEAD` of the stream tells.",
    ),
    "out_of_sequence": Explanation(
        "An append to a durable stream is not the next one of its writer.",
        (
            "An append before it has not arrived, or has not been sent.",
            "Another writer has used a greater `Stream-Seq`.",
        ),
        "Send what is missing first: `Producer-Expected-Seq` tells where. "
        "A `Stream-Seq` is above the last one, compared as text.",
    ),
    "producer_fenced": Explanation(
        "Another producer of this name has begun a later epoch.",
        ("The program was started again, and its earlier self still writes.",),
        "Stop writing. If this is the one that should go on, begin an epoch above "
        "`Producer-Epoch` of the answer, with `Producer-Seq` 0.",
    ),
    "gone": Explanation(
        "What was there is gone: the place in the stream, or a stream that forks refer to.",
        (
            "Trimming has removed the entries behind the offset.",
            "The stream was deleted, and forks of it are still there.",
        ),
        "Read from the beginning (`offset=-1`), or take another path.",
    ),
    "wrong_type": Explanation(
        "The Redis server has something under a key that the gateway has not put there.",
        (
            "Another program uses the name of the stream for a string, a list or a set.",
            "Another program has written to a key of the gateway (`hg:…`).",
        ),
        "Look at the key that `detail` names, and rename or delete it at the server.",
    ),
    "id_not_greater": Explanation(
        "An entry has an id of its own that is not above the last one of the stream.",
        (
            "Programs append with ids of their own, and another was quicker.",
            "The entry was appended before: the answer has been lost.",
        ),
        "Let the gateway make ids (`*`), or go on from `last_id`.",
    ),
    "staged_missing": Explanation(
        "A batch cannot be committed: one of its chunks is not here.",
        ("It was sent more than an hour ago, or to a gateway that started anew since.",),
        "Send the chunks again, and commit.",
    ),
    "limit_reached": Explanation(
        "There are as many streams, groups, consumers or producers as there may be.",
        ("Names are made anew again and again, such as a consumer for each request.",),
        "Use names again, or delete what nobody uses. `GET /v1/limits` has the limits.",
    ),
    "last_id_mismatch": Explanation(
        "The request has `If-Match`, and entries came between.",
        ("Another program appends to the stream, too.",),
        "Read what came, and append with the new `last_id`.",
    ),
    "too_large": Explanation(
        "The request, or the answer to it, is larger than allowed.",
        (
            "A batch has too many entries, or a body too many bytes.",
            "A range is read as a whole that should be read page by page.",
        ),
        "Send or read less at once. `GET /v1/limits` has the limits.",
    ),
    "unsupported_media_type": Explanation(
        "The body is of a media type that the operation does not read, or names none.",
        ("`curl -d` sends a form unless told otherwise.",),
        "Send `Content-Type: application/json`. Pages of other sites cannot, which protects you.",
    ),
    "header_too_large": Explanation(
        "The headers of the request are too large.",
        ("A cookie or a token is very long.",),
        "Send fewer headers.",
    ),
    "invalid_request": Explanation(
        "Fields of the request are wrong.",
        ("A name is misspelt: unknown fields are refused, so that a mistake is noticed.",),
        "Look at `errors`: each `pointer` names a field, and `detail` says what it should be.",
    ),
    "idempotency_mismatch": Explanation(
        "The idempotency key was used for another entry.",
        ("A program takes the same key for different entries.",),
        "Make a new key for each entry, and send the same key only when the same is sent again.",
    ),
    "too_many_waiters": Explanation(
        "Too many reads wait at the same time.", ("Reads are begun and not ended.",), _AGAIN
    ),
    "too_many_connections": Explanation(
        "The principal has as many connections, waiting reads or subscriptions as it may have.",
        ("Connections are opened for each request and not closed.",),
        "Share one connection: a WebSocket carries many subscriptions.",
    ),
    "rate_limited": Explanation(
        "The principal sends more than it may in a second.",
        ("Its limits of requests, entries or bytes are lower than its use.",),
        f"{_AGAIN} Batches need fewer requests.",
    ),
    "overloaded": Explanation(
        "The gateway has more to do than it can.",
        ("Large bodies arrive from many clients at the same time.",),
        _AGAIN,
    ),
    "unavailable": Explanation(
        "The gateway cannot make changes durable now. Reads go on.",
        ("The disk is full or fails, or a server of the backend cannot be reached.",),
        f"{_AGAIN} Operators look at `/readyz`, which says what is wrong.",
    ),
    "not_leader": Explanation(
        "This gateway is a standby: another one on the same bucket changes the streams.",
        ("A load balancer sends requests to a gateway whose `/readyz` is not 200.",),
        f"Send it to the gateway that `leader` names. Our clients take a list of addresses, and "
        f"find it by themselves. While another one takes over: {_AGAIN[0].lower()}{_AGAIN[1:]}",
    ),
    "draining": Explanation(
        "The gateway is about to stop.", ("It is restarted or updated.",), _AGAIN
    ),
    "cut_off": Explanation(
        "An operator has cut the connection off.",
        (
            "It held entries that others should have, or its client did not go on.",
            "It had to move to another process or machine.",
        ),
        "Connect again. To keep a client away, the operator takes its key back.",
    ),
    "memory_full": Explanation(
        "The streams have as much memory as they may have, so appends are refused.",
        ("Streams grow without `max_length` or `max_age_ms`.",),
        "Trim streams, or let them trim themselves; or `HEADGATE_FULL=trim_oldest` does it.",
    ),
    "extra_missing": Explanation(
        "The gateway was installed without an optional package that this needs.",
        ("Arrow bodies need pyarrow.",),
        "The operator installs it: `pip install '.[arrow]'`.",
    ),
    "not_supported": Explanation(
        "The backend of this gateway does not have this ability.",
        (
            "Streams are kept by Redis or Valkey, and this needs the embedded engine.",
            "`archive` needs an engine with a bucket behind its data directory.",
        ),
        "`GET /v1/limits` lists the abilities.",
    ),
    "internal": Explanation(
        "The gateway has a defect. Nothing was changed that was not acknowledged.",
        ("`detail` has the number of the incident, which the log of the gateway explains.",),
        "Tell the operator the number.",
    ),
    "row_changed": Explanation(
        "The row of the table is not as the request expects it.",
        (
            "`If-Match` names an entry, and another one is the row by now, or the row is gone.",
            "`If-None-Match: *` was sent, and there is a row.",
        ),
        "`row` of the problem is the row as it is. Make your change to that, and send it with "
        "`If-Match` and the id of that row.",
    ),
    "not_yours": Explanation(
        "The commit settles entries that are not pending with its consumer. Nothing was changed.",
        (
            "The work took longer than the group's claim time, and another consumer has the entry.",
            "The entry was delivered again since, and `deliveries` has the count of before.",
            "The entry was settled before, maybe by a commit whose answer was lost.",
        ),
        "`held` of the problem says who has each entry. Drop the result: whoever holds the entry "
        "makes one. Extend entries that you work on for long, and send an `Idempotency-Key`, so "
        "that a commit can be sent again.",
    ),
}
