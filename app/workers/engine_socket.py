"""The socket on which the engine process listens for the workers.

The supervisor binds it and keeps it, so a restarted engine serves the same socket, and workers that
connect meanwhile wait in its queue.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Final

from headgate.app.runtime.logs import announce
from headgate.app.workers.hub import ORPHAN_S_MAX

_NAME: Final = "engine.sock"
_QUEUE_LENGTH = 128
LEFTOVER_S_MAX: Final = 2 * ORPHAN_S_MAX
_LOOK_S = 0.2
_OWNER_ONLY = 0o177  # as a mask: nobody else may connect


class InUse(Exception):
    """Another gateway listens here. The text names the place."""


class EngineSocket:
    """The listening socket, and the file by which workers find it."""

    def __init__(self, data_dir: Path | None) -> None:
        """Listen in `data_dir`, or in a temporary folder if that fails. Raises InUse."""
        self._folder: Path | None = None
        listening = None
        if data_dir is not None:
            self.path = data_dir / _NAME
            with suppress(OSError):
                data_dir.mkdir(0o700, parents=True, exist_ok=True)
                listening = _listening(self.path)
        if listening is None:
            self._folder = Path(tempfile.mkdtemp(prefix="headgate-"))
            self.path = self._folder / _NAME
            listening = _listening(self.path)
        self.listening = listening

    def close(self) -> None:
        self.listening.close()
        with suppress(OSError):
            self.path.unlink()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


def await_leftover(data_dir: Path) -> None:
    """Wait for processes that still use a directory, as their supervisor was killed.

    They end by themselves. A gateway that keeps running is reported as in use later.
    """
    path = data_dir / _NAME
    for number in range(round(LEFTOVER_S_MAX / _LOOK_S)):
        if not _is_in_use(path):
            return
        if not number:
            text = (
                f"{data_dir} is in use: waiting {LEFTOVER_S_MAX:.0f} s for the other gateway to end"
            )
            announce(text, data_dir=str(data_dir))
        time.sleep(_LOOK_S)


def _listening(path: Path) -> socket.socket:
    _remove_stale(path)
    listening = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(_OWNER_ONLY)
    try:
        listening.bind(str(path))
        listening.listen(_QUEUE_LENGTH)
    except BaseException:
        listening.close()
        raise
    finally:
        os.umask(mask)
    return listening


def _remove_stale(path: Path) -> None:
    if _is_in_use(path):
        raise InUse(f"{path.parent}: in use by another gateway")
    if path.is_socket():
        path.unlink(missing_ok=True)


def _is_in_use(path: Path) -> bool:
    if not path.is_socket():
        return False
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(str(path))
        except ConnectionRefusedError:
            return False
        except OSError:
            raise InUse(f"{path}: cannot find out whether it is in use") from None
        return True
