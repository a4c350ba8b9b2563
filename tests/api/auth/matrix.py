"""The cases of the matrix: every operation, command and frame, with the names in them."""

import base64
import json
from collections.abc import Collection, Iterator
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx

from headgate.app.auth.grants import Grant, Verb

_NAMES = ("orders", "room-1", "billing", "anna", "ben", "carla", "fair")
"""Names of the stream, the channel, the group and the consumers in the document's examples."""


class About(NamedTuple):
    """The names in a request."""

    stream: str
    group: str = "g"
    consumer: str = "me"

    def named(self, value: Any) -> Any:
        """Return a value of an example with these names in place of its own."""
        if isinstance(value, dict):
            return {key: self.named(part) for key, part in value.items()}
        if isinstance(value, list):
            return [self.named(part) for part in value]
        if not isinstance(value, str):
            return value
        own = [self.stream, self.stream, self.group, *[self.consumer] * 3, self.group]
        names = dict(zip(_NAMES, own, strict=True))
        return names.get(value, value)


MINE, YOURS = About("mine.a"), About("yours.a")


class Case(NamedTuple):
    """A grant, and what is asked for with it."""

    name: str
    about: About
    is_own_stream: bool = True
    groups: list[str] | None = None
    consumer: str | None = None

    def __str__(self) -> str:
        return self.name


CASES = (
    Case("own", MINE),
    Case("another stream", YOURS, is_own_stream=False),
    Case("the shortest name of the pattern", About("mine.")),
    Case("a name that is too short for the pattern", About("mine"), is_own_stream=False),
    Case("own group", MINE, groups=["g*"]),
    Case("another group", MINE, groups=["h"]),
    Case("own consumer", MINE, consumer="me"),
    Case("another consumer", About("mine.a", consumer="you"), consumer="me"),
)


def grant_of(verb: Verb, case: Case) -> Grant | None:
    """Return the grant of a case; None: there is no such grant."""
    if verb is Verb.ADMIN:
        return Grant(streams=["*"], do=[verb]) if case.name == "own" else None
    return Grant(streams=["mine.*"], do=[verb], groups=case.groups, consumer=case.consumer)


def cases() -> Iterator[tuple[Verb, Case]]:
    """Yield each verb with each case."""
    for verb in Verb:
        for case in CASES:
            if grant_of(verb, case) is not None:
                yield verb, case


def cases_about(verbs: Collection[str]) -> Iterator[tuple[Verb, Case]]:
    """Yield each case with these verbs; another verb is none the better for a narrower grant."""
    return ((verb, case) for verb, case in cases() if case is CASES[0] or verb in verbs)


class Operation(NamedTuple):
    """An operation, as the document has it."""

    id: str
    method: str
    path: str
    parts: dict[str, Any]

    @property
    def is_open(self) -> bool:
        """Tell whether it needs no credential."""
        return not self.parts["security"]

    @property
    def verbs(self) -> frozenset[str]:
        """Return the verbs of which it needs one; none: any will do."""
        return frozenset(self.parts["x-needs"])

    def names(self, what: str) -> bool:
        """Tell whether it is about a stream, a group or a consumer."""
        shown = json.dumps(
            [
                [parameter.get("example") for parameter in self.parts.get("parameters", ())],
                self.parts.get("requestBody", {}),
            ]
        )
        is_shown = any(f'"{example}"' in shown for example in _EXAMPLES[what])
        return f"{{{what}}}" in self.path or is_shown

    def request(self, client: httpx.AsyncClient, about: About, token: str | None) -> httpx.Request:
        """Return a request like the example of the document, about something else."""
        path, query = self.path, {}
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        for parameter in self.parts.get("parameters", ()):
            value = about.named(parameter.get("example"))
            if parameter["in"] == "path":
                text = str(about.stream if parameter["name"] == "stream" else value)
                safe = "/" if parameter["name"] == "words" else ""
                path = path.replace(f"{{{parameter['name']}}}", quote(text, safe=safe))
            elif parameter["in"] == "query" and parameter.get("example") is not None:
                query[parameter["name"]] = value
        content = b""
        for media_type, body in self.parts.get("requestBody", {}).get("content", {}).items():
            if "example" not in body:
                continue
            example = body["example"]
            headers["Content-Type"] = media_type
            if media_type == "application/json":
                content = json.dumps(_plain(about.named(example))).encode()
                break
            content = base64.b64decode(example) if "arrow" in media_type else example.encode()
        if self.id.startswith("follow"):
            headers["Accept"] = "text/event-stream"
        return client.build_request(
            self.method, path, params=query, headers=headers, content=content
        )


_EXAMPLES = {
    "stream": ("orders", "room-1"),
    "group": ("billing", "fair"),
    "consumer": ("anna", "ben", "carla"),
}


def _plain(body: Any) -> Any:
    """Return a body that does not wait, and whose policy names no other stream."""
    if not isinstance(body, dict):
        return body
    plain = {**body, "wait_ms": 0} if "wait_ms" in body else body
    return {**plain, "policy": {"claim_idle_ms": 1}} if "policy" in body else plain


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    """Yield all operations of a document."""
    for path, methods in document["paths"].items():
        for method, parts in methods.items():
            yield Operation(parts["operationId"], method.upper(), path, parts)
