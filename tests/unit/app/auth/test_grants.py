"""Grants: the meaning of a pattern, and refused patterns."""

import pytest
from pydantic import ValidationError

from headgate.app.auth.grants import Grant, Pattern, Verb


def grant(pattern: str) -> Grant:
    return Grant(streams=[pattern], do=[Verb.READ])


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("{{acme}}orders", Pattern(b"{acme}orders")),
        ("{{acme}}*", Pattern(b"{acme}", is_prefix=True)),
        ("{{{sub}}}*", Pattern(b"{ann}", is_prefix=True)),
        ("{{chat}}.{sub}.*", Pattern(b"{chat}.ann.", is_prefix=True)),
        ("{{*", Pattern(b"{", is_prefix=True)),
        ("{{sub}}", Pattern(b"{sub}")),
    ],
)
def test_a_pattern_may_have_the_hash_tag_of_streams(text: str, pattern: Pattern) -> None:
    assert grant(text).bind({"sub": "ann"}).streams == (pattern,)


@pytest.mark.parametrize("text", ["{", "}", "{sub", "{sub}}", "{{{sub}}", "{}", "{a b}", "x{{}"])
def test_a_brace_by_itself_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match=r"a brace belongs around|should name a claim"):
        grant(text)
