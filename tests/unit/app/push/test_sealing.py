"""Secrets are read with the keys that there are, and with no others."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from cryptography.fernet import Fernet

from headgate.app.push.sealing import KeyMissing, Sealing


async def test_a_file_is_made_for_its_owner_alone_and_used_again(tmp_path: Path) -> None:
    path = tmp_path / "push.key"
    sealed = await Sealing(path, may_create=True).seal({"secret": "s"})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "s" not in (sealed, path.read_text())
    assert await Sealing(path).unseal(sealed, dict[str, str]) == {"secret": "s"}


async def test_a_new_key_comes_in_front_of_those_of_before(tmp_path: Path) -> None:
    path = tmp_path / "push.key"
    old, new = Fernet.generate_key(), Fernet.generate_key()
    path.write_bytes(old)
    sealing = Sealing(path)
    before = await sealing.seal("a")
    path.write_bytes(new + b"\n" + old + b"\n")
    assert await sealing.unseal(before, str) == "a"
    after = await sealing.seal("b")
    path.write_bytes(new)
    assert (await sealing.unseal(before, str), await sealing.unseal(after, str)) == (None, "b")


@pytest.mark.parametrize("content", [b"", b"short\n", b"\xff" * 44, b"a" * 100_000, None])
async def test_without_a_key_nothing_is_kept_and_nothing_is_read(
    tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "push.key"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(KeyMissing, match=r"push\.key"):
        await Sealing(path).seal("a")
    assert await Sealing(path).unseal("x", str) is None
    with pytest.raises(KeyMissing, match="push_key_file"):
        await Sealing(None).seal("a")


async def test_a_file_that_is_no_key_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "push.key"
    path.write_bytes(b"something else\n")
    with pytest.raises(KeyMissing):
        await Sealing(path, may_create=True).seal("a")
    assert path.read_bytes() == b"something else\n"


async def test_processes_with_one_secret_read_each_other() -> None:
    sealed = await Sealing(None, secret=b"x" * 32).seal("a")
    assert await Sealing(None, secret=b"x" * 32).unseal(sealed, str) == "a"
    assert await Sealing(None, secret=b"y" * 32).unseal(sealed, str) is None


@pytest.mark.parametrize("text", ["", "gAAAA", "\u00fc", "x" * 10_000])
async def test_what_was_not_sealed_is_nothing(text: str) -> None:
    assert await Sealing(None, secret=b"x" * 32).unseal(text, str) is None
