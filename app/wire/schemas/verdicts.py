"""Verdicts: whether a group needs attention."""

from typing import Annotated, Literal

from pydantic import Field
from typing_extensions import TypedDict

Verdict = Literal["ok", "warning", "critical"]

ReasonCode = Literal[
    "no_consumer",
    "stalled",
    "paused",
    "behind",
    "push_failing",
    "push_paused",
    "push_disabled",
    "push_unreadable",
]


class VerdictReason(TypedDict):
    """A reason why a group needs attention."""

    code: ReasonCode
    severity: Verdict
    entries: Annotated[int, Field(description="Entries that wait.")]
    text: Annotated[str, Field(description="The reason in words.")]


class GroupVerdict(TypedDict):
    """Whether a group needs attention."""

    verdict: Annotated[
        Verdict,
        Field(
            description="`critical`: entries wait and no consumer receives them, or the push is "
            "disabled. `warning`: the group is paused or behind by a minute or more, or its push "
            "fails. `ok`: none of these. Dead letters do not count."
        ),
    ]
    reasons: Annotated[
        list[VerdictReason], Field(description="The reasons for the verdict, the worst first.")
    ]
