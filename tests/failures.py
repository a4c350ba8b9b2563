"""Failures: what periodic work may meet, and goes on after."""

from __future__ import annotations

import errno

import pytest

FAILURES = [
    OSError(errno.EMFILE, "Too many open files"),
    RuntimeError("can't start new thread"),
    MemoryError(),
    ValueError("a fault of ours"),
]

each_failure = pytest.mark.parametrize("failure", FAILURES, ids=lambda each: type(each).__name__)
