"""The choice of cases for each face and place: all there are, or some by a seed."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

from tests.conformance.cases import Case, read_cases
from tests.conformance.faces.live import Events, Sockets
from tests.conformance.faces.port import Port
from tests.conformance.faces.python import Python
from tests.conformance.faces.redis import Commands, Resp
from tests.conformance.faces.rest import Http
from tests.conformance.faces.typescript import TypeScript
from tests.contract.backends import KINDS, Kind

FACES: list[type[Port]] = [Port, Http, Resp, Commands, Events, Sockets, Python, TypeScript]


class Chosen(NamedTuple):
    """A case, and where it is carried out."""

    case: Case
    face: type[Port]
    kind: Kind

    def __str__(self) -> str:
        return f"{self.case.name}-{self.face.__name__}-{self.kind.name}"


@cache
def seed() -> str:
    """Return the seed: of the environment, or the commit."""
    given = os.environ.get("HEADGATE_TEST_SEED")
    if given is not None:
        return given
    command = ["git", "rev-parse", "HEAD"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "0"


def can(case: Case, face: type[Port], kind: Kind) -> bool:
    """Tell whether a face can carry out a case at a place."""
    lacking = {need for need in case.needs if need in face.lacks}
    of_place = {need for need in case.needs if need not in ABILITIES_OF_FACES}
    return not lacking and of_place <= kind.can and bool(case.operations & face.own())


ABILITIES_OF_FACES = {"closing", "strict"}
"""Those that say nothing about a place."""


def every() -> Iterator[Chosen]:
    """Yield every case with each face and place that can carry it out."""
    for case in read_cases():
        for face in FACES:
            for kind in KINDS:
                if can(case, face, kind):
                    yield Chosen(case, face, kind)


def balanced() -> Iterator[Chosen]:
    """Yield each case over the port in memory and on disk, over each face, and at each place.

    From face to face the place is the next one, so each face comes to all of them.
    """
    turn = random.Random(seed()).randrange(len(KINDS))
    for case in read_cases():
        places = {kind.name: kind for kind in KINDS if can(case, Port, kind)}
        for face in FACES[1:]:
            kinds = [kind for kind in KINDS if can(case, face, kind)]
            if kinds:
                turn += 1
                kind = kinds[turn % len(kinds)]
                yield Chosen(case, face, kind)
                if kind.name not in ("memory", "disk"):
                    places.pop(kind.name, None)
        yield from (Chosen(case, Port, kind) for kind in places.values())
