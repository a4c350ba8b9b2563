"""The examples of the OpenAPI document are what the gateway says."""

from pathlib import Path

import pytest

from headgate.app.http.operation import ARROW
from tests.api.conftest import Live
from tests.api.documents.story import EXAMPLES, played, written


async def test_the_story_played_again_is_word_for_word_the_examples(tmp_path: Path) -> None:
    assert written(await played(tmp_path)) == EXAMPLES.read_text("utf-8"), "run `make openapi`"


@pytest.mark.asyncio(loop_scope="session")
async def test_every_operation_shows_what_it_takes_and_what_it_answers(shared: Live) -> None:
    document = (await shared.http.get("/openapi.json")).json()
    for operation in (each for path in document["paths"].values() for each in path.values()):
        answers = [
            content
            for status, response in operation["responses"].items()
            if status.startswith("2")
            for content in response.get("content", {}).values()
        ]
        required = [each for each in operation.get("parameters", ()) if each.get("required")]
        assert all("example" in each for each in required), operation["operationId"]
        if answers:
            assert any("example" in each for each in answers), operation["operationId"]
        if operation.get("requestBody", {}).get("required"):
            content = operation["requestBody"]["content"]
            shown = any("example" in each for each in content.values())
            assert shown or list(content) == [ARROW], operation["operationId"]
