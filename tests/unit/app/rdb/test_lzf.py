"""LZF: runs and copies, those that overlap as well; what is no LZF."""

import pytest

from headgate.app.rdb.lzf import decompress


def test_runs_and_copies() -> None:
    assert decompress(b"\x02abc\x20\x02", 6) == b"abcabc"
    assert decompress(b"\x00a\xe0\xff\x00", 265) == b"a" * 265
    assert decompress(b"\x01ab\x60\x01\x00c", 8) == b"ababababc"[:7] + b"c"
    assert decompress(b"", 0) == b""


@pytest.mark.parametrize(
    ("packed", "size"),
    [
        *((b"\x02ab", 3), (b"\x02abc", 4), (b"\x02abc", 2), (b"\x00a\x20\x01", 4)),
        *((b"\x00a\xe0", 99), (b"\x00a\x20", 4), (b"\x00a\xe0\xff\x00" * 50, 265)),
    ],
)
def test_what_is_no_lzf_is_refused(packed: bytes, size: int) -> None:
    with pytest.raises(ValueError, match="compressed bytes"):
        decompress(packed, size)
