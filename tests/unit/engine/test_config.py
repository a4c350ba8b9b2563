"""Policies: which other streams they name."""

from __future__ import annotations

from typing import Any, get_args, get_type_hints

import pytest

from headgate.engine.config import GroupPolicy, PolicyPatch


@pytest.mark.parametrize("kind", [GroupPolicy, PolicyPatch])
def test_every_field_that_names_a_stream_is_known_to(
    kind: type[GroupPolicy | PolicyPatch],
) -> None:
    hints = get_type_hints(kind)
    naming = {name for name, hint in hints.items() if "bytes" in str(hint)}
    assert naming == {name for name, hint in hints.items() if bytes in get_args(hint)}  # not inside

    named: dict[str, Any] = {name: name.encode() for name in naming}
    policy = kind(**named)
    assert policy.other_streams == [name.encode() for name in hints if name in naming]
    assert kind().other_streams == []
