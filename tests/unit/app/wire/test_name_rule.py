"""Names: what a stream, a group or a consumer may be called."""

import pytest

from headgate.app.wire.name_rule import NAME_BYTES_MAX, fault_of
from headgate.app.wire.names import check_name, text_of
from headgate.app.wire.problems import GatewayError


@pytest.mark.parametrize(
    "name", ["a", "orders:eu", "…", " ", "é" * (NAME_BYTES_MAX // 2), "🚚", "%2F"]
)
def test_a_name_is_any_text_that_can_be_shown(name: str) -> None:
    assert fault_of(name) is None
    assert text_of(check_name(name, pointer="/path/stream")) == name


@pytest.mark.parametrize("name", ["", "é" * (NAME_BYTES_MAX // 2) + "a", "🚚" * NAME_BYTES_MAX])
def test_a_name_has_a_size(name: str) -> None:
    fault = fault_of(name)

    assert fault is not None
    assert fault.endswith(f"this one has {len(name.encode())}")


@pytest.mark.parametrize("name", ["a/b", "a\n", "\x00", "\x7f", "\x85", "\ud800", "a\ufffd"])
def test_a_name_has_nothing_in_it_that_a_path_or_a_log_would_garble(name: str) -> None:
    with pytest.raises(GatewayError) as refused:
        check_name(name, pointer="/path/stream")

    assert (refused.value.code, refused.value.pointer) == ("invalid_request", "/path/stream")


def test_bytes_that_are_no_text_can_be_shown() -> None:
    assert text_of(b"a\xff") == "a\ufffd"
