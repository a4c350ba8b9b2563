"""redis-py by hand: what a Python program does without a gateway, in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path

from tests.bench.cluster.turns import Done
from tests.bench.servers import pin_to_server_core

_PROGRAM = Path(__file__).with_name("redis_py.py")


def run(work: str, port: int, count: int, seconds: float, group: str = "") -> Done:
    """Do a piece of work on the core of what is measured.

    Args:
        work: `append` or `consume`.
        port: of the server.
        count: commands of a pipeline, or entries of a read.
        seconds: how long.
        group: that reads.
    """
    command = [sys.executable, str(_PROGRAM), work, str(port), str(count), str(seconds), group]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
        pin_to_server_core(process.pid)
        output, _ = process.communicate()
    assert process.returncode == 0
    return Done(*json.loads(output))
