"""Limits: what `/v1/limits` tells of a bound is what its setting says."""

import pytest

from headgate.app.settings import Settings
from headgate.app.wire.schemas.limits import Limits

OF_THE_MACHINE = {"memory_bytes_max", "sockets_max"}
"""Where the setting may leave it to the machine."""

LEFT_OUT = {"connection_ms_max", "disk_bytes_max"}
"""Where the answer says what null means."""


@pytest.mark.parametrize("name", sorted(set(Limits.model_fields) - OF_THE_MACHINE - LEFT_OUT))
def test_a_limit_is_told_in_the_words_of_its_setting(name: str) -> None:
    told, setting = Limits.model_fields[name], Settings.model_fields[name]

    assert told.description
    assert told.description == setting.description
    assert told.annotation == setting.annotation
