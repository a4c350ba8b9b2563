"""One name means one thing, which no other tool checks."""

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

FORMS = ("app/live/frames/", "app/routes/events.py", "app/wire/schemas/")
"""Models of the wire have the names of the things that they are forms of."""


def classes(*folders: str) -> Iterator[tuple[str, str]]:
    """Yield the public classes below folders, with their files."""
    for folder in folders:
        for file in sorted((ROOT / folder).rglob("*.py")):
            path = str(file.relative_to(ROOT))
            if not path.startswith(FORMS):
                for node in ast.walk(ast.parse(file.read_text("utf-8"))):
                    if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                        yield node.name, path


@pytest.mark.parametrize("programs", [["app", "engine"], ["clients"], ["deploy"], ["pipeline"]])
def test_a_class_has_a_name_of_its_own(programs: list[str]) -> None:
    places: dict[str, list[str]] = defaultdict(list)
    for name, path in classes(*programs):
        places[name].append(path)
    twice = {name: paths for name, paths in places.items() if len(paths) > 1}
    assert not twice, f"{twice}: one name means one thing: rename one by what it is"
