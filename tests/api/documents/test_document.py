"""The committed OpenAPI document is the one the gateway serves."""

import json
import re
from pathlib import Path

import pytest
from fastapi.routing import APIRoute

from headgate.app.durable_streams import routes as durable_streams
from tests.api.conftest import Live

pytestmark = pytest.mark.asyncio(loop_scope="session")

COMMITTED = Path(__file__).parents[3] / "openapi"


@pytest.mark.parametrize("name", ["openapi.json", "asyncapi.json"])
async def test_the_committed_document_is_what_is_served(shared: Live, name: str) -> None:
    served = (await shared.http.get(f"/{name}")).json()
    assert served == json.loads((COMMITTED / name).read_text()), "run `make openapi`"


async def test_the_conversation_is_described_frame_by_frame(shared: Live) -> None:
    document = (await shared.http.get("/asyncapi.json")).json()
    messages, schemas = document["components"]["messages"], document["components"]["schemas"]

    kinds = {name.partition("_")[2] for name in messages if name.startswith("receive_")}
    assert kinds == {
        "subscribe", "unsubscribe", "credit", "ack", "nack", "extend", "append", "ping", "auth",
    }  # fmt: skip
    references = set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document)))
    assert references <= schemas.keys()
    assert all(message["summary"] for message in messages.values())


async def test_every_operation_has_a_name_a_description_and_problems(shared: Live) -> None:
    document = (await shared.http.get("/openapi.json")).json()
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) == 76
    assert all(each["description"] for each in operations)
    errors = [
        response
        for each in operations
        for status, response in each["responses"].items()
        if int(status) >= 400
        and not (each["tags"] == ["Commands"] and status in ("400", "413", "503"))
    ]
    assert all(list(error["content"]) == ["application/problem+json"] for error in errors)


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
