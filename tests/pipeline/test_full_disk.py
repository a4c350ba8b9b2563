"""A job whose disk is full ends, with 1, and says why."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from tests.pipeline.gateway import ROOT, Gateway

END_S_MAX = 120.0
FILE_BYTES_MAX = 4096


def no_room() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (FILE_BYTES_MAX, FILE_BYTES_MAX))


@pytest.mark.parametrize(
    "words", [("archive", "--streams", "{name}", "--lake", "{folder}/lake")], ids=["archive"]
)
def test_a_job_whose_disk_is_full_ends_and_says_why(
    words: tuple[str, ...], gateway: Gateway, name: str, tmp_path: Path
) -> None:
    entries = [{"fields": {"v": f"{number * 7919:0500x}"}} for number in range(2000)]
    answer = gateway.http.post(f"/v1/streams/{name}/entries/batch", json=entries)
    answer.raise_for_status()
    filled = [word.format(name=name, folder=tmp_path) for word in words]
    done = subprocess.run(
        [sys.executable, "-m", "headgate.pipeline.cli", *filled, "--url", gateway.url],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=END_S_MAX,
        preexec_fn=no_room,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "File too large" in done.stderr
