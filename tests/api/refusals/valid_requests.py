"""A check for schemathesis: what the document allows is refused only for what no schema can tell.

`SCHEMATHESIS_HOOKS` names this module.
"""

import re
from typing import Any

import schemathesis

STATES = {401, 403, 404, 409, 410, 412, 413, 429, 501, 503}
"""Answers that depend on what is there, on rights, or on limits of use."""

UNTOLD = {
    "The settings of the gateway bound it.": r"^/\S+: should be at most \d+, not \d+$",
    "An id is below 2^64.": r"'\(?(\d{20,}[\d-]*|\d+-\d{20,})' is not an entry id",
    "No id is below the first, or above the last.": r"no id exists beyond this one$",
    "The path of a batch looks like that of an entry.": r"^/path/id: .* is not an entry id",
    "A cursor is whatever the gateway made.": r"^/(query|header)/(cursor|after|Last-Event-ID): ",
    "Ids and times share a parameter.": r"^/body/(start|end): .* is not an entry id",
    "A filter has a language of its own.": r"^/(query|body)\S*/filters?\b",
    "Columns are a list in a text.": r"^/query/columns: ",
    "Cron expressions and time zones are looked up.": r"/(cron|time_zone): should ",
    "A pattern of a right may name claims.": r"^/body/grants/\d+",
    "A URL and headers have syntaxes of their own.": r"^/body/(url|headers): ",
    "A schema is checked as a schema.": r"^/body/schema\b",
    "CloudEvents have rules of their own.": r"^/body/[^/]*: .*(attribute|empty|RFC|media type)",
    "A batch of CloudEvents is a string for generators.": r"not JSON: Expected `array`",
    "A consumer is named twice.": r"name different consumers|names another consumer",
    "JSON Schema takes 1.0 for an integer.": r": should be a valid integer$",
    "base64 has a form.": r": should be base64 text$",
    "base64 names fields.": r"base64 names '.*', but there is no such field$",
    "Some parts exclude each other.": (
        r"give either|may have either|without If-Match|exactly one of|"
        r"not allowed with an Idempotency-Key"
    ),
    "Some parts need each other.": (
        r"needs? an? |and only then|only allowed with|belong together|has no effect without|"
        r"consumer requires group|the same field, or key_field is left out|: give start, |"
        r"requires after|: give after$|: set key_field$"
    ),
    "Fields of a patch may be left out, and not empty.": r"an entry has at least one field$",
    "A list has each stream once.": r"may occur only once$",
    "It depends on what is there.": r"key was already used|policy names no dead_letter_stream",
}
"""Why a valid request may be refused, and the words of the problem."""

COMMANDS = "/v1/commands"
"""Words of Redis commands: their errors are those of Redis."""


CHECK = "refused_for_what_no_schema_can_tell"


@schemathesis.check
def refused_for_what_no_schema_can_tell(ctx: Any, response: Any, case: Any) -> None:
    """Raise AssertionError unless the refusal of a valid request has one of the reasons above."""
    is_valid = case.meta is not None and case.meta.generation.mode.is_positive
    if not is_valid or response.status_code < 400 or response.status_code in STATES:
        return
    if case.operation.path.startswith(COMMANDS):
        return
    problem = response.json()
    faults = [f"{each['pointer']}: {each['detail']}" for each in problem.get("errors") or ()]
    untold = [
        fault
        for fault in faults or [problem["detail"]]
        if not any(re.search(words, fault) for words in UNTOLD.values())
    ]
    assert not untold, f"a valid request is refused ({response.status_code}): {untold}"
