"""What a credential allows, as an operator or an issuer of tokens writes it.

A grant names streams, and what may be done with them. A pattern is a name, or the beginning of a
name and `*`. `{sub}` and `{claim}` stand for claims of a token. `{{` and `}}` stand for braces,
such as those of hash tags: `{{acme}}*`. A grant that names groups applies only to these groups, and
one that names a consumer only to this consumer. One that names keys applies only to the rows of
tables with these keys.
"""

import re
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from headgate.app.wire.name_rule import NAME_BYTES_MAX, fault_of
from headgate.engine.limits import COUNT_MAX, ROW_KEY_BYTES_MAX

GRANTS_MAX = 100
PATTERNS_MAX = 100
"""Patterns of one grant."""

_PLACE = re.compile(r"\{\{|\}\}|\{([^{}]*)\}")
"""Placeholders: a brace that is doubled, or a claim, whose name is the group."""

_CLAIM = re.compile(r"[\w.:/-]{1,128}", re.ASCII)
_REFUSED_IN_CLAIM = re.compile(r"[*{}\x00-\x1f\x7f-\x9f]")


class Verb(StrEnum):
    """The verbs of grants."""

    READ = "read"  # ranges, cursors, following, descriptions, bulk reads
    APPEND = "append"  # entries, batches, staged batches
    CONSUME = "consume"  # everything that a consumer of a group does
    MANAGE = "manage"  # create, configure, trim, delete; groups, consumers, policies
    PUSH = "push"  # let the gateway send a group's entries to a URL; with `manage` and `consume`
    PUBLISH = "publish"  # messages on channels: for it and the next, patterns name channels
    SUBSCRIBE = "subscribe"  # to the messages of channels, and who is there
    ADMIN = "admin"  # the gateway itself: journal, FLUSHALL, CONFIG SET, metrics

    __hash__ = str.__hash__  # Enum has one in Python, and each request needs several


OF_CHANNELS = frozenset({Verb.PUBLISH, Verb.SUBSCRIBE})
"""Verbs whose patterns name channels; those of all others name streams."""


class Pattern(NamedTuple):
    text: bytes
    is_prefix: bool = False

    def matches(self, name: bytes) -> bool:
        return name.startswith(self.text) if self.is_prefix else name == self.text

    def __str__(self) -> str:
        return self.text.decode(errors="replace") + "*" * self.is_prefix


def _check_key(text: str) -> str:
    for match in _PLACE.finditer(text):
        if match[1] is not None and not _CLAIM.fullmatch(match[1]):
            raise ValueError(f"{match[0]} should name a claim, such as {{sub}}")
    plain = _PLACE.sub("x", text)
    if "{" in plain or "}" in plain:
        raise ValueError(
            "braces must enclose the name of a claim, such as {sub}; write {{ and }} for braces "
            "themselves"
        )
    if "*" in plain[:-1]:
        raise ValueError("`*` is only allowed at the end of a pattern")
    return text


def _check_name(text: str) -> str:
    plain = _PLACE.sub("x", _check_key(text))
    name = plain.removesuffix("*")
    fault = fault_of(name) if name or plain != "*" else None
    if fault is not None:
        raise ValueError(fault)
    return text


PatternText = Annotated[str, Field(json_schema_extra={"minLength": 1}), AfterValidator(_check_name)]
KeyPattern = Annotated[str, Field(max_length=ROW_KEY_BYTES_MAX), AfterValidator(_check_key)]
Patterns = Annotated[list[PatternText], Field(min_length=1, max_length=PATTERNS_MAX)]


class Right(NamedTuple):
    verbs: frozenset[Verb]
    streams: tuple[Pattern, ...]
    groups: tuple[Pattern, ...] | None = None  # None: of all groups, and of the stream itself
    consumer: Pattern | None = None  # None: as any consumer
    keys: tuple[Pattern, ...] | None = None  # of tables; None: the stream as a whole
    create: bool = False


class UnboundClaim(ValueError):
    """A grant needs a claim that is missing, or whose value could widen the grant."""


class Grant(BaseModel):
    """Streams, and what may be done with them."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    streams: Patterns = Field(
        description="Names of streams, or prefixes followed by `*`; with `publish` and "
        "`subscribe`, names of channels."
    )
    do: list[Verb] = Field(min_length=1, description="Allowed verbs.")
    groups: Patterns | None = Field(None, description="Only with these groups.")
    consumer: PatternText | None = Field(None, description="Only as this consumer.")
    keys: Annotated[list[KeyPattern], Field(min_length=1, max_length=PATTERNS_MAX)] | None = Field(
        None, description="Only table rows: their keys, or prefixes followed by `*`."
    )
    create: bool = Field(False, description="Whether an append may create the stream.")

    @model_validator(mode="after")
    def _check_admin(self) -> "Grant":
        if Verb.ADMIN in self.do and (self.streams != ["*"] or self.groups or self.consumer):
            raise ValueError('`admin` applies to the whole gateway: its streams must be ["*"]')
        return self

    @model_validator(mode="after")
    def _check_keys(self) -> "Grant":
        if self.keys is not None and (
            self.groups or self.consumer or not {Verb.READ, Verb.APPEND}.issuperset(self.do)
        ):
            raise ValueError(
                "`keys` is only allowed with `read` and `append`, and without `groups` and "
                "`consumer`"
            )
        return self

    def bind(self, claims: Mapping[str, object]) -> Right:
        """Return the grant with a token's claims filled in; raises UnboundClaim for unsafe ones."""
        return Right(
            frozenset(self.do),
            tuple(_bound(text, claims) for text in self.streams),
            None if self.groups is None else tuple(_bound(text, claims) for text in self.groups),
            None if self.consumer is None else _bound(self.consumer, claims),
            None if self.keys is None else tuple(_bound_key(text, claims) for text in self.keys),
            create=self.create,
        )


Grants = Annotated[list[Grant], Field(max_length=GRANTS_MAX)]


def _bound(text: str, claims: Mapping[str, object], bytes_max: int = NAME_BYTES_MAX) -> Pattern:
    def value_of(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return match[0][0]
        value = claims.get(name)
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            raise UnboundClaim(f"the pattern {text!r} needs the claim {name!r} with a text")
        if _REFUSED_IN_CLAIM.search(str(value)):
            raise UnboundClaim(
                f"the claim {name!r} has a character that is not allowed in a pattern"
            )
        return str(value)

    filled = _PLACE.sub(value_of, text)
    name = filled.removesuffix("*")
    if len(name.encode()) > bytes_max:
        raise UnboundClaim(f"the pattern {text!r} is too long with the values of its claims")
    return Pattern(name.encode(), is_prefix=filled != name)


def _bound_key(text: str, claims: Mapping[str, object]) -> Pattern:
    return _bound(text, claims, ROW_KEY_BYTES_MAX)


EVERYTHING = Right(frozenset(Verb), (Pattern(b"", is_prefix=True),), create=True)
"""All rights there are."""

_ANYBODY_DOES = [
    *(Verb.READ, Verb.APPEND, Verb.CONSUME, Verb.MANAGE),
    *(Verb.PUBLISH, Verb.SUBSCRIBE),
]

ANYBODY = Grant(streams=["*"], do=_ANYBODY_DOES, create=True)
"""Rights of requests without a credential, if these are allowed and have no others.

Others send nothing through the gateway to places of their choice.
"""

Limit = Annotated[int, Field(ge=1, le=COUNT_MAX)]


class UsageLimits(BaseModel):
    """The limits of a principal's use; the settings fill in those left out."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    requests_per_s_max: Limit | None = Field(None, description="Requests, frames and commands.")
    entries_per_s_max: Limit | None = Field(None, description="Entries appended and delivered.")
    bytes_per_s_max: Limit | None = Field(None, description="Of bodies and frames received.")
    connections_max: Limit | None = Field(None, description="Event streams and WebSockets.")
    waiters_max: Limit | None = Field(None, description="Blocked reads of the principal.")
    subscriptions_max: Limit | None = Field(None, description="Subscriptions at once.")

    def over(self, defaults: "UsageLimits") -> "UsageLimits":
        own = self.model_dump(exclude_none=True)
        return UsageLimits.model_validate({**defaults.model_dump(), **own})

    @property
    def are_any(self) -> bool:
        return any(limit is not None for _, limit in self)


def verbs_of(rights: Sequence[Right]) -> frozenset[Verb]:
    return frozenset[Verb]().union(*(right.verbs for right in rights))
