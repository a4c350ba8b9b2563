"""The committed OpenAPI document is the one the gateway serves."""

import json
from pathlib import Path

from tests.api.conftest import Live

COMMITTED = Path(__file__).parents[2] / "openapi" / "openapi.json"


async def test_the_committed_document_is_what_is_served(live: Live) -> None:
    served = (await live.http.get("/openapi.json")).json()
    assert served == json.loads(COMMITTED.read_text()), "run `make openapi`"


async def test_every_operation_has_a_name_a_description_and_only_problems_as_errors(
    live: Live,
) -> None:
    document = (await live.http.get("/openapi.json")).json()
    operations = [each for path in document["paths"].values() for each in path.values()]
    assert len({each["operationId"] for each in operations}) == len(operations) == 42
    assert all(each["description"] for each in operations)
    errors = [
        response
        for each in operations
        for status, response in each["responses"].items()
        if int(status) >= 400 and not (each["tags"] == ["Commands"] and status in ("400", "503"))
    ]
    assert all(list(error["content"]) == ["application/problem+json"] for error in errors)
