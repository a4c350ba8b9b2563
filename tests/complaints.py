"""Complaints: what a gateway in the test's own process says of a mistake."""

import logging

import pytest


def complaints(caplog: pytest.LogCaptureFixture, level: int = logging.WARNING) -> list[str]:
    """Return the messages of this level and above, but not that a busy machine held the loop."""
    records = [record for record in caplog.records if record.levelno >= level]
    messages = [record.getMessage() for record in records]
    return [message for message in messages if message != "event loop held"]
