"""The instructions of an operation stay within its budget."""

import shutil

import pytest

from tests.bench.count import count, over_budget


@pytest.mark.long
@pytest.mark.skipif(shutil.which("valgrind") is None, reason="there is no valgrind")
@pytest.mark.timeout(1800)
def test_no_operation_takes_more_instructions_than_its_budget() -> None:
    assert over_budget(count()) == []
