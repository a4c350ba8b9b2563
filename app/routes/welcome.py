"""Welcome: the first page, for a browser or for curl, and what to do next."""

import html
from functools import cache, partial
from importlib.metadata import version
from importlib.resources import files
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from headgate.app.http.dependencies import gateway_of
from headgate.app.http.pages import PAGE_HEADERS, page_headers
from headgate.app.runtime.threads import PAGES
from headgate.app.transport.proxies import base_url

router = APIRouter()  # pages, not operations

_JSON = "-H 'content-type: application/json'"
_STREAM = "{base}/v1/streams/{stream}"
_GROUP = f"{_STREAM}/groups/billing"

_STEPS = {
    "Append an entry": f'curl {_STREAM}/entries {_JSON} -d \'{{"fields":{{"sku":"42"}}}}\'',
    "Read it": f"curl '{_STREAM}/entries?after=0'",
    "Follow the stream": f"curl -N '{_STREAM}/events?after=0'",
    "Make a group, to share the work": f'curl -X PUT {_GROUP} {_JSON} -d \'{{"start":"0"}}\'',
    "Read as one of its consumers": (
        f"curl -X POST '{_GROUP}/read?consumer=me' {_JSON} -d '{{\"wait_ms\":20000}}'"
    ),
}
_BEARER = '-H "Authorization: Bearer $HEADGATE_TOKEN"'
_TAKE_KEY = "read -rs HEADGATE_TOKEN; export HEADGATE_TOKEN"
_KEY_STEP = {"Give the shell your key: paste it unseen, then Enter": _TAKE_KEY}
_PAGES = {
    "/console": "streams, groups and what flows, live; and what to do about it",
    "/guide": "how to append, follow and work, with curl, Python, TypeScript",
    "/docs": "every operation, to read and to try",
    "/openapi.json": "the same for programs",
    "/asyncapi.json": "what is said over the WebSocket",
    "/problems": "what each problem means, and what to do",
    "/metrics": "what is counted, for Prometheus",
}


@router.head("/", include_in_schema=False)
@router.get("/", include_in_schema=False)
async def welcome(request: Request) -> Response:
    """Show a welcome and the next steps."""
    is_open = gateway_of(request).auth.is_open
    if "text/html" in request.headers.get("accept", ""):
        page = await PAGES.call_if_awaited(partial(_page, request.scope["root_path"], is_open))
        return Response(page.html, media_type="text/html", headers=page.headers)
    text = await PAGES.call_if_awaited(partial(_text, base_url(request.scope), is_open))
    return Response(text, media_type="text/plain", headers=PAGE_HEADERS)


def _steps(is_open: bool) -> dict[str, str]:
    """Return the commands by title; with a key, unless everybody may do everything."""
    if is_open:
        return _STEPS
    steps = {title: step.replace("curl ", f"curl {_BEARER} ") for title, step in _STEPS.items()}
    return _KEY_STEP | steps


def _text(base: str, is_open: bool) -> str:
    steps = [f"{title}:\n  {_shown_step(step, base)}\n" for title, step in _steps(is_open).items()]
    pages = [f"  {base + path:<{len(base) + 14}}  {what}\n" for path, what in _PAGES.items()]
    head = f"Headgate {version('headgate')}, a streaming gateway\n\n"
    return head + "".join([*steps, "And in a browser, besides this address:\n", *pages])


def _shown_step(step: str, base: str) -> str:
    return step.replace("{base}", base).replace("{stream}", "orders")


class _Page(NamedTuple):
    html: str
    headers: dict[str, str]


@cache
def _page(root_path: str, is_open: bool) -> _Page:
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
    shown = {
        "root": root_path,
        "version": version("headgate"),
        "steps": steps,
        "pages": pages,
    }
    for name, text in shown.items():
        page = page.replace(f"<!--{name}-->", text)
    return _Page(page, page_headers(page))
