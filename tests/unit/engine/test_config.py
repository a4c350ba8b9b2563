"""Settings: what follows from their declarations."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headgate.engine.config import NO_POLICY, Form, GroupPolicy, Patch, StreamConfig, settings_of

VALUES = {
    Form.NUMBER: 7,
    Form.NUMBERS: (1, 2),
    Form.STREAM: b"s",
    Form.FIELD: b"f",
    Form.FILTERS: '{"present":"a"}',
    Form.WEIGHTS: ((b"gold", 3),),
    Form.CHOICE: True,
    Form.FLAG: True,
}
KINDS = [StreamConfig, GroupPolicy]


@pytest.mark.parametrize("kind", KINDS)
def test_every_setting_takes_the_values_of_its_form(kind: type[msgspec.Struct]) -> None:
    settings = settings_of(kind)
    assert list(settings) == list(kind.__struct_fields__)

    whole = kind(**{name: VALUES[setting.form] for name, setting in settings.items()})
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(whole), type=kind) == whole
    assert Patch.to(whole).applied_to(kind()) == whole
    assert all(setting.about.description.endswith(".") for setting in settings.values())


def test_a_policy_names_the_streams_that_it_writes_to() -> None:
    naming = [name for name, each in settings_of(GroupPolicy).items() if each.form is Form.STREAM]

    named: dict[str, Any] = {name: name.encode() for name in naming}
    policy = GroupPolicy(**named)
    assert policy.other_streams == [name.encode() for name in naming]
    assert NO_POLICY.other_streams == []
