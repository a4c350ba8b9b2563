"""Every face decides as the port does, wherever the streams are."""

from __future__ import annotations

import pytest

from tests.api.conftest import Live
from tests.conformance.cases import Case, Run
from tests.conformance.choice import FACES, balanced, every, seed
from tests.conformance.faces.port import Port
from tests.contract.backends import KINDS, Kind

pytestmark = pytest.mark.asyncio(loop_scope="session")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Choose the cases."""
    chosen = list(balanced())
    if "case" in metafunc.fixturenames:
        away = pytest.mark.away
        params = [
            pytest.param(*each, id=str(each), marks=[away] * each.kind.is_away) for each in chosen
        ]
        metafunc.parametrize(("case", "face", "kind"), params)


async def carried_out(case: Case, face: type[Port], live: Live) -> None:
    """Carry out a case over a face of a gateway."""
    opened = face(live)
    try:
        await Run(case, opened).run()
    finally:
        await opened.close()


async def test_a_case_comes_out_as_written(
    case: Case, face: type[Port], live: Live, request: pytest.FixtureRequest
) -> None:
    try:
        await carried_out(case, face, live)
    except BaseException as error:
        error.add_note(f"replay: HEADGATE_TEST_SEED={seed()} pytest '{request.node.nodeid}'")
        raise


@pytest.mark.long
@pytest.mark.parametrize("face", [pytest.param(face, id=face.__name__) for face in FACES])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_all_cases_come_out_as_written(face: type[Port], kind: Kind, live: Live) -> None:
    for case in (each.case for each in every() if (each.face, each.kind) == (face, kind)):
        await carried_out(case, face, live)
