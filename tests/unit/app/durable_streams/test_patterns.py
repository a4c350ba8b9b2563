"""Patterns of subscriptions: a star is a segment, two are any number of them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headgate.app.durable_streams.subscriptions.definition import matches


@pytest.mark.parametrize(
    ("pattern", "path", "is_match"),
    [
        *(("events/*", "events/a", True), ("events/*", "events/a/b", False)),
        *(("events/*", "events", False), ("events/**", "events", True)),
        *(("events/**", "events/a/b", True), ("**", "anything/at/all", True)),
        *(("**/end", "end", True), ("**/end", "a/b/end", True), ("**/end", "a/b/end/c", False)),
        *(("a/**/b/*", "a/x/b/y/b/z", True), ("a.b/*", "axb/c", False)),
    ],
)
def test_the_rules(pattern: str, path: str, is_match: bool) -> None:
    assert matches(pattern, path) is is_match


segments = st.sampled_from(["a", "b", "*", "**"])


@given(st.lists(segments, min_size=1, max_size=6), st.lists(st.sampled_from("ab"), max_size=8))
def test_it_is_what_an_expression_says(pattern: list[str], path: list[str]) -> None:
    path = path or ["a"]
    words = {"*": "[^/]+/", "**": "(?:[^/]+/)*"}
    expression = "".join(words.get(segment, f"{segment}/") for segment in pattern)
    expected = re.fullmatch(expression, "/".join(path) + "/") is not None
    assert matches("/".join(pattern), "/".join(path)) is expected


def test_many_stars_take_no_long_time() -> None:
    assert not matches("/".join(["**", "a"] * 60), "/".join(["a"] * 119 + ["b"]))
