"""A line of code is counted once, and a comment is none."""

import pytest

from tests.count_lines import count

PYTHON = '''"""What it is.

    x = 1
"""

# why
A = "# text"  # why
"""What A is."""


def f() -> str:
    """Return a text."""
    return """
    one

    two"""
'''


@pytest.mark.parametrize(
    ("language", "text", "lines"),
    [
        ("Python", PYTHON, 6),
        ("TypeScript", "/** What.\n * Why.\n */\n\n// why\nconst a = 1; // why\n", 1),
        ("Lua", "-- what\nlocal a = 1 -- why\n\nreturn a\n", 2),
        ("CSS", "/* what */\na {\n  color: red; /* why */\n}\n", 3),
        ("HTML", "<!-- what\nwhy -->\n<p>a</p>\n", 1),
        ("settings", "# why\na = 1 # why\n\n", 1),
        ("other", "#!/bin/sh\n# why\nls\n", 2),
        ("JSON", '{\n  "a": 1\n}\n', 3),
    ],
)
def test_lines_of_code_are_counted(language: str, text: str, lines: int) -> None:
    assert count(text, language) == lines
