"""Whatever comes, the answer is one of the protocol, and never a failure of the gateway."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

VALUES = [
    *("", "0", "-1", "now", "true", "TRUE", "1_1", "0_0", "99999999999999999999_0", "é", "a,b"),
    *("application/json", "text/plain", "TEXT/PLAIN; charset=utf-8", "x/y", "long-poll", "sse"),
    *("2030-01-31T12:00:00Z", "9007199254740992", "00", "+1", "1e3", "/v1/stream/a", "\x7f", '"'),
]
HEADERS = [
    *("Content-Type", "Stream-TTL", "Stream-Expires-At", "Stream-Closed", "Stream-Seq"),
    *("Stream-Forked-From", "Stream-Fork-Offset", "Stream-Fork-Sub-Offset", "If-None-Match"),
    *("Producer-Id", "Producer-Epoch", "Producer-Seq", "Authorization"),
]
BODIES = [b"", b"[]", b"[1]", b'{"a":"b"}', b"\xff", b"[", b'{"type":"webhook","pattern":"*"}']
PATHS = ["a", "b", "a/b", "a:b", "%2F", "a%00", "__ds", "__ds/subscriptions/s", "__ds/jwks.json"]
PATHS += [f"__ds/subscriptions/s/{last}" for last in ("claim", "ack", "callback", "release")]

values = st.one_of(st.sampled_from(VALUES), st.text(max_size=30))
requests = st.tuples(
    st.sampled_from(["GET", "PUT", "POST", "DELETE", "HEAD", "PATCH"]),
    st.sampled_from(PATHS),
    st.dictionaries(st.sampled_from(["offset", "cursor", "x"]), values, max_size=3),
    st.dictionaries(st.sampled_from(HEADERS), values, max_size=5),
    st.one_of(st.sampled_from(BODIES), st.binary(max_size=100)),
)


@hypothesis_settings(
    max_examples=100,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(requests, min_size=1, max_size=12))
async def test_nothing_makes_it_fail(shared: Live, asked: list[tuple]) -> None:  # type: ignore[type-arg]
    for method, path, query, headers, body in asked:
        sent = {
            name.encode(): "".join(char for char in text if char >= " ").strip().encode()
            for name, text in headers.items()
        }
        place = f"/v1/stream/{path}"
        answer = await shared.http.request(method, place, params=query, headers=sent, content=body)
        assert answer.status_code < 500, (method, path, query, sent, body, answer.text)
