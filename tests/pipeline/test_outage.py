"""Outage: a job says in one line that the gateway goes, and in one that it is back."""

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from headgate.pipeline.checkpoint import Checkpoint, CheckpointError
from headgate.pipeline.jobs.archive import OutageWatch
from headgate.pipeline.terminal.flags import Flags
from tests.pipeline.gateway import Gateway


def test_a_gateway_that_goes_and_comes_is_said_once_each(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gateway = Gateway(":memory:")
    with OutageWatch("archive", Flags(url=gateway.url, trigger="5s"), look_s=0) as watch:
        watch.look()
        gateway.stop()
        watch.look()
        watch.look()
        gateway.start()
        watch.look()
        watch.look()
    gateway.stop()

    gone, back = capsys.readouterr().err.splitlines()
    assert gone.startswith(f"archive: the gateway at {gateway.url} is away, waiting up to 15m: ")
    assert re.fullmatch(r"archive: the gateway is back after \d+ s", back)


def test_a_gateway_that_does_not_answer_holds_nobody_up(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        flags = Flags(url=f"http://127.0.0.1:{mute.getsockname()[1]}")
        with OutageWatch("archive", flags, look_s=0) as watch:
            watch.look()  # or the test ends by its timeout

    assert "is away" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("flags", "outage_ms"),
    [(Flags(), 60_000), (Flags(trigger="5s"), 900_000), (Flags(trigger="5s", outage=1000), 1000)],
)
def test_a_service_waits_longer_than_who_runs_once(flags: Flags, outage_ms: int) -> None:
    assert flags.outage_ms == outage_ms
    assert flags.connection()["retryTimeoutMs"] == str(outage_ms)


@pytest.mark.parametrize(
    ("file", "text", "use"),
    [
        ("metadata", "{", Checkpoint.query),
        ("metadata", "[]", Checkpoint.query),
        ("headgate.json", "{", lambda checkpoint: checkpoint.claim({"job": "archive"})),
        ("offsets/3", "v1\n{}\n{", lambda checkpoint: checkpoint.end(3)),
    ],
)
def test_a_damaged_checkpoint_says_what_is_safe(
    tmp_path: Path, file: str, text: str, use: Callable[[Checkpoint], object]
) -> None:
    damaged = tmp_path / file
    damaged.parent.mkdir(exist_ok=True)
    damaged.write_text(text)

    with pytest.raises(CheckpointError, match="Delete it: `archive` writes nothing twice"):
        use(Checkpoint(str(tmp_path)))


WHOLE = {
    "metadata": '{"id": "q"}',
    "offsets/9": 'v1\n{}\n{"orders": {"id": "1-0"}}',
    "offsets/10": 'v1\n{}\n{"orders": {"id": "2-0"}}',
    "commits/9": "v1\n{}",
}


@pytest.mark.parametrize(
    ("file", "content"),
    [
        ("metadata", None),
        ("metadata", b""),
        *(
            (name, content)
            for name in ("offsets/10", "commits/9")
            for content in (b"", b"v1", b'v1\n{"x', b"{}", b"\xff\xfe\x00")
        ),
        ("commits/11", b"v1\n{}"),  # of a batch that nobody has planned
    ],
)
def test_damage_in_the_log_of_spark_says_what_is_safe(
    tmp_path: Path, file: str, content: bytes | None
) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    checkpoint.check()  # nothing has begun
    for name, text in WHOLE.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    checkpoint.check()

    if content is None:
        (tmp_path / file).unlink()
    else:
        (tmp_path / file).write_bytes(content)
    with pytest.raises(CheckpointError, match="Delete it: `archive` writes nothing twice"):
        checkpoint.check()
