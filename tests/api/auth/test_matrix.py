"""Every operation x every verb x whose stream, group and consumer it is: allowed, or refused.

The operations, their verbs and their requests come from the document that clients have. What is
refused changes nothing.
"""

import json
from operator import itemgetter
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

from headgate.app.auth.grants import Verb
from tests.api.auth.matrix import MINE, About, Case, Operation, cases_about, operations
from tests.api.auth.secured import Secured

pytestmark = pytest.mark.asyncio(loop_scope="session")

OPERATIONS = {
    operation.id: operation
    for operation in operations(json.loads(Path("openapi/openapi.json").read_text("utf-8")))
    if not operation.path.startswith("/v1/commands")  # see test_command_matrix
}

SHARED = frozenset({"describeGroup", "readGroupHistory"})
"""Operations with the same answer for all consumers: a grant for one of them is enough."""

NARROWER = {"createTicket": frozenset({"read"})}
"""Operations whose example needs less than the operation may."""

OF_TWO_VERBS = frozenset({"closeStream", "setSchedule", "setPush", "resumePush"})
"""Operations whose example needs two verbs or more: no grant of one is enough."""


def is_allowed(operation: Operation, verb: Verb, case: Case) -> bool:
    """Tell whether the page of rights allows it."""
    verbs = NARROWER.get(operation.id, operation.verbs)
    if operation.is_open:
        return True
    if (verbs and verb not in verbs) or operation.id in OF_TWO_VERBS:
        return False
    if not operation.names("stream"):
        return True
    if not case.is_own_stream:
        return False
    if case.groups is not None:
        return operation.names("group") and case.groups == ["g*"]
    if case.consumer is not None and operation.id not in SHARED:
        return operation.names("consumer") and case.consumer == case.about.consumer
    return True


async def status_of(client: httpx.AsyncClient, request: httpx.Request) -> tuple[int, str]:
    """Return the status of an answer, and the code of its problem if it has one."""
    async with client.stream(
        request.method, request.url, headers=request.headers, content=request.content
    ) as answer:
        if not answer.headers.get("content-type", "").startswith("application/problem+json"):
            return answer.status_code, ""
        return answer.status_code, json.loads(await answer.aread())["code"]


@pytest.mark.parametrize("name", OPERATIONS)
async def test_an_operation_is_allowed_where_a_grant_says_so(
    name: str,
    matrix: Secured,
    client: httpx.AsyncClient,
    keys: dict[tuple[Verb, str], str],
    ended: dict[str, str],
) -> None:
    operation = OPERATIONS[name]
    before = matrix.live.position
    for token in (*ended.values(), None):
        answered = await status_of(client, request_of(operation, client, MINE, token))
        assert answered == ((200, "") if operation.is_open else (401, "unauthenticated"))
    assert matrix.live.position == before
    asked = [(is_allowed(operation, *each), *each) for each in cases_about(operation.verbs)]
    for allowed, verb, case in sorted(asked, key=itemgetter(0)):  # first what changes nothing
        request = request_of(operation, client, case.about, keys[verb, case.name])
        status, code = await status_of(client, request)
        if allowed:
            assert status not in (401, 403), f"{verb}, {case.name}: {status}"
        else:
            assert (status, code) == (403, "forbidden"), f"{verb}, {case.name}: {status}"
            assert matrix.live.position == before, f"{verb}, {case.name} has changed something"


def request_of(
    operation: Operation, client: httpx.AsyncClient, about: About, token: str | None
) -> httpx.Request:
    """Return the request of an operation, with a body of Arrow where its example has none."""
    request = operation.request(client, about, token)
    if operation.id != "stageChunk":
        return request
    sink = pa.BufferOutputStream()
    table = pa.table({"fields": pa.array([[("k", "v")]], pa.map_(pa.utf8(), pa.utf8()))})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = request.headers
    headers.update({"Content-Type": "application/vnd.apache.arrow.stream"})
    del headers["Content-Length"]
    content = sink.getvalue().to_pybytes()
    return client.build_request(request.method, request.url, headers=headers, content=content)
