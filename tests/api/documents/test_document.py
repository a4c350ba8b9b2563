"""The committed documents are those the gateway serves, and its answers fit them."""

import json
import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from headgate.app.durable_streams import routes as durable_streams
from headgate.engine.entry import MAX_ID, EntryId
from tests.api.conftest import Live
from tests.api.live.frames import frames_of

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMMITTED = Path(__file__).parents[3] / "openapi"


@pytest.mark.parametrize("name", ["openapi.json", "asyncapi.json"])
async def test_the_committed_document_is_what_is_served(shared: Live, name: str) -> None:
    served = (await shared.http.get(f"/{name}")).json()
    assert served == json.loads((COMMITTED / name).read_text()), "run `make openapi`"


async def test_every_operation_has_a_name_a_description_and_problems(shared: Live) -> None:
    document = (await shared.http.get("/openapi.json")).json()
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) == 112
    # Generators make a class for each tag, and two with the same types do not compile.
    assert {len(each["tags"]) for each in operations} == {1}
    assert all(each["description"] for each in operations)
    assert all(
        {"400", "422"} & each["responses"].keys() for each in operations
    )  # unknown parameters
    errors = [
        response
        for each in operations
        for status, response in each["responses"].items()
        if int(status) >= 400
        and not (each["tags"] == ["Commands"] and status in ("400", "413", "503"))
    ]
    assert all(list(error["content"]) == ["application/problem+json"] for error in errors)


async def test_no_schema_has_the_name_of_the_constructor_of_another_in_go(shared: Live) -> None:
    schemas = (await shared.http.get("/openapi.json")).json()["components"]["schemas"]
    assert schemas.keys().isdisjoint({f"New{name}" for name in schemas})


async def test_every_code_of_a_problem_stands_where_it_can_occur(shared: Live) -> None:
    document = (await shared.http.get("/openapi.json")).json()
    codes = document["components"]["schemas"]["Problem"]["properties"]["code"]["enum"]
    operations = [
        operation["responses"] for path in document["paths"].values() for operation in path.values()
    ]
    # Another protocol, with a document of its own.
    hidden = durable_streams.router.routes
    operations += [route.responses for route in hidden if isinstance(route, APIRoute)]
    described = {
        code
        for operation in operations
        for response in operation.values()
        for code in re.findall(r"`(\w+)`", response["description"])
    }

    assert set(codes) <= described


LAST = EntryId(MAX_ID.ms, MAX_ID.seq - 1)
ORDERS = "/v1/streams/orders"
BILLING = f"{ORDERS}/groups/billing"


async def test_answers_with_the_greatest_ids_and_numbers_fit_the_documents(shared: Live) -> None:
    http = shared.http
    await shared.create_group("orders", "billing")
    for entry_id in (LAST, MAX_ID):
        body = {"id": str(entry_id), "fields": {"v": "1"}, "ttl_ms": 90 * 24 * 3_600_000}
        answer = await http.post(f"{ORDERS}/entries", json=body)
        assert answer.status_code == 201, answer.text
    await shared.read_group("orders", "billing", "me")

    async with frames_of(shared, f"{ORDERS}/ws?after=0") as frames:
        await frames.next("subscribed")
        assert await frames.ids(2) == [str(LAST), str(MAX_ID)]
    for path in (
        *(ORDERS, f"{ORDERS}?full=true", "/v1/streams", f"{ORDERS}/entries/{MAX_ID}"),
        *(f"{ORDERS}/entries", f"{ORDERS}/entries?after={LAST}", f"{ORDERS}/entries?order=desc"),
        *(BILLING, f"{BILLING}/pending", f"{BILLING}/consumers", f"{ORDERS}/groups"),
    ):
        assert (await http.get(path)).status_code == 200, path
    await http.post(f"{ORDERS}/trim", json={"min_id": str(MAX_ID)})
    gap = (await http.get(f"{ORDERS}/entries?after=1")).json()["gap"]
    assert gap == {"from": "1-0", "to": str(LAST)}
    assert (await shared.outcomes("ack", "orders", "billing", [str(MAX_ID)], "me")) == ["acked"]
