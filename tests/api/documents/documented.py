"""The answers of an operation by the committed document."""

import functools
import json
import re
from pathlib import Path
from typing import Any

import httpx

DOCUMENT = Path(__file__).parents[3] / "openapi" / "openapi.json"


@functools.cache
def _operations() -> list[tuple[re.Pattern[str], str, dict[str, Any]]]:
    """Return path, method and description of each operation; the fewer parameters the earlier."""
    paths = json.loads(DOCUMENT.read_text())["paths"]
    return [
        (re.compile(re.sub(r"\{\w+\}", "[^/]+", path)), method, operation)
        for path in sorted(paths, key=lambda path: path.count("{"))
        for method, operation in paths[path].items()
    ]


def operation_of(request: httpx.Request) -> dict[str, Any] | None:
    """Return the operation a request is for, if it is for one."""
    path = request.url.raw_path.decode().partition("?")[0]
    for pattern, method, operation in _operations():
        if method == request.method.lower() and pattern.fullmatch(path):
            return operation
    return None


def check_documented(answer: httpx.Response, code: str) -> None:
    """Check that the operation says it may answer with this problem."""
    operation = operation_of(answer.request)
    if operation is not None:
        response = operation["responses"].get(str(answer.status_code), {"description": "nothing"})
        name, description = operation["operationId"], response["description"]
        text = f"{name} may say {answer.status_code} {code}: {description}"
        assert f"`{code}`" in description, text
