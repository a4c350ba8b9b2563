"""Examples of the documents: requests, answers and frames of a test.

`tests/api/documents/story.py` plays them and writes the file.
"""

import json
from importlib.resources import files
from typing import Any


def examples() -> dict[str, Any]:
    """Return an exchange for each `operationId`, and under `frames` a frame for each message."""
    read: dict[str, Any] = json.loads((files("headgate.app") / "examples.json").read_text("utf-8"))
    return read
