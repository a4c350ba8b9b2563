"""Guide: pages of instructions and concepts, which name the gateway that shows them.

The texts are in `app/guide/`. A page with sections named after clients shows a tab for each.
"""

import html
import json
import re
from collections.abc import Callable
from enum import StrEnum
from functools import cache, partial
from importlib.resources import files
from itertools import chain
from typing import NamedTuple

from fastapi import APIRouter, Request, Response

from headgate.app.http.dependencies import gateway_of
from headgate.app.http.pages import FILE_HEADERS, PAGE_HEADERS, PageRoute, page_headers
from headgate.app.runtime.telemetry import versions
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.explanations import EXPLANATIONS
from headgate.app.wire.problems import GatewayError

router = APIRouter(route_class=PageRoute)  # pages, not operations

CHAPTERS = {
    "Get started": {
        "concepts": "Concepts",
        "append": "Append entries",
        "follow": "Follow a stream",
        "patterns": "Follow all streams of a pattern",
        "close": "Close a stream",
        "latest": "Keep the latest by key",
        "schemas": "Validate entries with a schema",
        "channels": "Channels and presence",
    },
    "Share work": {
        "work": "Process entries",
        "many": "Process many streams with one group",
        "push": "Push a group to a URL",
        "once": "Process exactly once",
        "steps": "Durable steps",
        "retry": "Retry failed entries",
        "choose": "Filter a group",
        "order": "Keep the order of each key",
        "fair": "Share fairly between tenants",
        "later": "Delays and deadlines",
        "pause": "Pause and rate-limit a group",
        "schedules": "Append on a schedule",
    },
    "Connect": {
        "install": "Install a client",
        "browser": "Use it in a browser",
        "tickets": "Authorize a web page",
        "durable": "Resume a stream of tokens",
        "redis": "Use a Redis client",
        "agents": "Give it to an agent",
        "cloudevents": "Send and read CloudEvents",
        "backfill": "Backfill history",
        "tables": "Read into pandas",
        "lake": "Archive into a lake",
    },
    "Operate": {
        "keys": "Keys and permissions",
        "operate": "Run it in production",
        "machines": "Scale out",
        "survive": "Survive the loss of a machine",
        "limits": "Limits",
    },
}
"""The pages by chapter, with their titles, in the order in which somebody reads them."""

TASKS: dict[str, str] = dict(chain.from_iterable(each.items() for each in CHAPTERS.values()))

CLIENTS = ("curl", "Python", "TypeScript", "React", "JavaScript", "Terminal")
"""Names of parts that are shown as tabs."""

_SECTION = re.compile(r"<h2>(.*)</h2>")
_MARKS = re.compile(r"```\w*|[`#*|]")

PICTURES = ("icon", "life")


class GuideHome(StrEnum):
    OPEN = "open"  # a gateway
    KEYED = "keyed"  # a gateway that asks for a key
    SITE = "site"  # files, without a gateway


@router.get("/guide", include_in_schema=False)
async def list_tasks(request: Request) -> Response:
    """Show the first page."""
    return await _answer(request, next(iter(TASKS)))


@router.get("/guide/pages.json", include_in_schema=False)
async def list_pages() -> Response:
    """Return the texts of all pages, for the search."""
    return Response(
        await PAGES.call_if_awaited(searched_pages),
        media_type="application/json",
        headers=FILE_HEADERS,
    )


@router.get("/guide/{name}.svg", include_in_schema=False)
async def show_picture(name: str) -> Response:
    """Return a picture of the guide."""
    if name not in PICTURES:
        raise GatewayError("not_found", f"there is no picture {name[:64]!r}")
    text = await PAGES.call_if_awaited(partial(_read, f"{name}.svg"))
    return Response(text, media_type="image/svg+xml", headers=page_headers(text))


@router.get("/guide/{task}", include_in_schema=False)
async def explain_task(request: Request, task: str) -> Response:
    """Show a page."""
    if task not in TASKS:
        raise GatewayError("not_found", f"there is no page {task[:64]!r}: see /guide")
    return await _answer(request, task)


async def _answer(request: Request, task: str) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        home = GuideHome.OPEN if gateway_of(request).auth.is_open else GuideHome.KEYED
        page = await PAGES.call_if_awaited(partial(page_of, request.scope["root_path"], task, home))
        return Response(page, media_type="text/html", headers=page_headers(page))
    text = await PAGES.call_if_awaited(partial(source, task))
    return Response(text, media_type="text/markdown", headers=PAGE_HEADERS)


@cache
def source(task: str) -> str:
    """Return the text of a page; `VERSION` is replaced by that of the gateway."""
    return _read(f"{task}.md").replace("VERSION", versions()[0])


def _read(name: str) -> str:
    return (files("headgate.app") / "guide" / name).read_text("utf-8")


@cache
def page_of(root_path: str, task: str, home: GuideHome) -> str:
    shown: dict[str, str] = {
        "root": root_path,
        "home": home,
        "title": html.escape(TASKS[task]),
        "chapters": "".join(
            f"<h2>{chapter}</h2>" + "".join(_link(root_path, name, task) for name in tasks)
            for chapter, tasks in CHAPTERS.items()
        ),
        "content": _content(task).replace('="/', f'="{root_path}/'),
        "next": _next(root_path, task),
    }
    page = (files("headgate.app") / "guide.html").read_text("utf-8")
    for name, text in shown.items():
        page = page.replace(f"<!--{name}-->", text)
    return page


def _link(root_path: str, name: str, shown: str | None = None) -> str:
    current = " aria-current=page" if name == shown else ""
    return f'<a href="{root_path}/guide/{name}"{current}>{html.escape(TASKS[name])}</a>'


def _next(root_path: str, task: str) -> str:
    names = list(TASKS)
    at = names.index(task)
    before = f"<span>← {_link(root_path, names[at - 1])}</span>" if at else "<span></span>"
    as_text = f"<span>As text: <code>curl localhost:8080/guide/{task}</code></span>"
    if at + 1 == len(names):
        return before + as_text + f'<span><a href="{root_path}/docs">Every operation</a> →</span>'
    return before + as_text + f"<span>Next: {_link(root_path, names[at + 1])} →</span>"


class PageParts(NamedTuple):
    """The parts of a page, in the order in which somebody reads them: one of the tabs."""

    introduction: str
    tabs: dict[str, str]  # the text for each client
    rest: str


def parts_of(task: str) -> PageParts:
    introduction, *parts = source(task).split("\n## ")
    named = [part.partition("\n") for part in parts]
    tabs = {title: text for title, _, text in named if title in CLIENTS}
    others = [f"## {title}\n{text}" for title, _, text in named if title not in CLIENTS]
    return PageParts(introduction, tabs, "\n".join(others))


def _content(task: str) -> str:
    """Return the content of a page: sections of clients as tabs, the others below."""
    introduction, tabs, rest = parts_of(task)
    from markdown_it import MarkdownIt  # noqa: PLC0415  no start has to wait for it

    render: Callable[[str], str] = MarkdownIt().enable("table").render
    title, text = introduction.split("\n", 1)
    sections = _SECTION.sub(_with_anchor, render(rest))
    content = render(title) + _list_of(sections, has_tabs=bool(tabs)) + render(text)
    if tabs:
        labels = "".join(
            f'<input type="radio" name="tab" id="tab{at}"{" checked" if not at else ""}>'
            f'<label for="tab{at}">{html.escape(title)}</label>'
            for at, title in enumerate(tabs)
        )
        panels = "".join(f"<section>{render(text)}</section>" for text in tabs.values())
        content += (
            f'<div class="tabs card" id="commands">{labels}<div class="panels">{panels}</div></div>'
        )
    return content + sections


def _with_anchor(section: re.Match[str]) -> str:
    return f'<h2 id="{_anchor_of(section[1])}">{section[1]}</h2>'


def _anchor_of(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _list_of(sections: str, *, has_tabs: bool) -> str:
    """Return the list of what is on a page, if it has several parts."""
    titles: list[str] = re.findall(r"<h2[^>]*>(.*)</h2>", sections)
    if not titles:
        return ""
    links = [("commands", "Commands")] if has_tabs else []
    links += [(_anchor_of(title), title) for title in titles]
    shown = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in links)
    return f'<nav class="parts" aria-label="On this page">{shown}</nav>\n'


@cache
def searched_pages() -> bytes:
    """Return the texts of the pages and of the problems, for the search."""
    pages = [
        {"path": f"/guide/{task}", "title": title, "text": _MARKS.sub("", source(task))}
        for task, title in TASKS.items()
    ]
    problems = [
        {
            "path": f"/problems/{code}",
            "title": f"Problem {code}",
            "text": " ".join([explained.meaning, *explained.causes, explained.remedy]),
        }
        for code, explained in EXPLANATIONS.items()
    ]
    return json.dumps([*pages, *problems]).encode()
