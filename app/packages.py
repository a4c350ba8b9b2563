"""Serves the client packages that fit this gateway.

Those in TypeScript are built with the console, into `app/clients/`. The wheel is built from the
files of this installation on demand.
"""

from __future__ import annotations

import base64
import hashlib
import io
import zipfile
from collections.abc import Iterator
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import NamedTuple

_BUILT = Path(__file__).with_name("clients")
_MEDIA_TYPES = {".js": "text/javascript", ".tgz": "application/gzip", ".whl": "application/zip"}
_LEFT_OUT = frozenset(["__pycache__", ".made-of", "clients"])
_WHEEL = "Wheel-Version: 1.0\nGenerator: headgate\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
_LONG_AGO = (1980, 1, 1, 0, 0, 0)  # so that the same files make the same wheel
_MODE = 0o644 << 16


class Package(NamedTuple):
    name: str
    media_type: str
    content: bytes
    sha256: str  # in hexadecimal digits
    integrity: str  # a checksum as pages and lock files write it (Subresource Integrity)


def packages() -> dict[str, Package]:
    """Return the files by name; the TypeScript ones are missing if it was built without Node."""
    return _packages(_BUILT.stat().st_mtime_ns if _BUILT.is_dir() else 0)


@lru_cache(1)
def _packages(built_at_ns: int) -> dict[str, Package]:
    """Return the files; the argument invalidates the cache when the clients are rebuilt."""
    built = sorted(_BUILT.iterdir()) if built_at_ns else []
    files = [(path.name, path.read_bytes()) for path in built if path.suffix in _MEDIA_TYPES]
    return {name: _package(name, content) for name, content in [*files, _wheel()]}


def _package(name: str, content: bytes) -> Package:
    """Return a file with its checksums, computed once: that takes milliseconds per megabyte."""
    sha384 = base64.b64encode(hashlib.sha384(content).digest()).decode()
    sha256 = hashlib.sha256(content).hexdigest()
    media_type = _MEDIA_TYPES[Path(name).suffix]
    return Package(name, media_type, content, sha256, f"sha384-{sha384}")


def _wheel() -> tuple[str, bytes]:
    """Return the name and the content of a wheel of this installation (PEP 427)."""
    this = distribution("headgate")
    about = f"headgate-{this.version}.dist-info"
    files = dict(_installed())
    for name in ("METADATA", "entry_points.txt"):
        files[f"{about}/{name}"] = (this.read_text(name) or "").encode()
    files[f"{about}/WHEEL"] = _WHEEL.encode()
    lines = [f"{name},sha256={_digest(content)},{len(content)}" for name, content in files.items()]
    files[f"{about}/RECORD"] = "\n".join([*lines, f"{about}/RECORD,,", ""]).encode()
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w", zipfile.ZIP_DEFLATED) as written:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, _MODE
            written.writestr(entry, content)
    return f"headgate-{this.version}-py3-none-any.whl", archive.getvalue()


def _installed() -> Iterator[tuple[str, bytes]]:
    import headgate  # noqa: PLC0415 the whole of it is no part of anything here

    [top] = headgate.__path__
    for path in sorted(_files(Path(top))):
        yield f"headgate/{path.relative_to(top).as_posix()}", path.read_bytes()


def _files(folder: Path) -> Iterator[Path]:
    """Yield the files of a folder; in a checkout it contains symbolic links to folders."""
    for path in folder.iterdir():
        if path.is_dir() and path.name not in _LEFT_OUT:
            yield from _files(path)
        elif path.is_file() and path.name not in _LEFT_OUT:
            yield path


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
