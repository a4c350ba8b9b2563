"""Packages: the clients that fit this gateway, to be installed from it."""

import msgspec
from fastapi import APIRouter, Request, Response

from headgate.app.http.pages import FILE_HEADERS
from headgate.app.packages import Package, packages
from headgate.app.runtime.threads import PAGES
from headgate.app.transport.proxies import base_url
from headgate.app.wire.problems import GatewayError

router = APIRouter()  # files, not operations


@router.get("/clients", include_in_schema=False)
async def list_packages(request: Request) -> Response:
    """List the clients, with their sizes and checksums."""
    base = f"{base_url(request.scope)}/clients"
    files = await PAGES.call_if_awaited(packages)
    shown = [
        {
            "url": f"{base}/{package.name}",
            "bytes": len(package.content),
            "sha256": package.sha256,
            "integrity": package.integrity,
        }
        for package in files.values()
    ]
    listed = msgspec.json.encode({"clients": shown})
    return Response(listed, media_type="application/json", headers=FILE_HEADERS)


@router.get("/clients/{name}", include_in_schema=False)
async def send_package(request: Request, name: str) -> Response:
    """Send a client."""
    package = (await PAGES.call_if_awaited(packages)).get(name)
    if package is None:
        raise GatewayError("not_found", f"there is no {name[:64]!r}: /clients lists what there is")
    return _answer(request, package)


def _answer(request: Request, package: Package) -> Response:
    headers = FILE_HEADERS | {"ETag": f'"{package.sha256}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(package.content, media_type=package.media_type, headers=headers)
