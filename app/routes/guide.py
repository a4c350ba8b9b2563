"""Guide: a page for each task, in the terms of each client. `app/guide/` has the texts."""

import html
from functools import cache, partial
from importlib.resources import files
from typing import Any, NamedTuple

from fastapi import APIRouter, Request, Response
from markdown_it import MarkdownIt

from headgate.app.http.pages import PAGE_HEADERS, page_headers
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.problems import GatewayError

router = APIRouter()  # pages, not operations

TASKS = {
    "append": "Append entries",
    "follow": "Follow a stream",
    "patterns": "Follow all streams of a pattern",
    "close": "Close a stream",
    "work": "Work entries off",
    "push": "Push a group to a URL",
    "retry": "Retry what fails",
    "choose": "Choose what a group gets",
    "order": "Keep the order of each key",
    "later": "Deliver later, or until a deadline",
    "pause": "Pause a group, or bound its rate",
    "schedules": "Append on a schedule",
    "cloudevents": "Send and read CloudEvents",
    "browser": "Use it in a browser",
    "durable": "Resume a stream of tokens",
    "backfill": "Backfill history",
    "tables": "Read into pandas",
    "survive": "Survive the machine",
}


@router.get("/guide", include_in_schema=False)
async def list_tasks(request: Request) -> Response:
    """Show the first task."""
    return await _answer(request, next(iter(TASKS)))


@router.get("/guide/{task}", include_in_schema=False)
async def explain_task(request: Request, task: str) -> Response:
    """Show the instructions for a task."""
    if task not in TASKS:
        raise GatewayError("not_found", f"there is no page {task[:64]!r}: see /guide")
    return await _answer(request, task)


async def _answer(request: Request, task: str) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        page = await PAGES.call_if_awaited(partial(_page, request.scope["root_path"], task))
        return Response(page, media_type="text/html", headers=page_headers(page))
    text = await PAGES.call_if_awaited(partial(source, task))
    return Response(text, media_type="text/markdown", headers=PAGE_HEADERS)


@cache
def source(task: str) -> str:
    """Return the text of a task."""
    return (files("headgate.app") / "guide" / f"{task}.md").read_text("utf-8")


class _Tab(NamedTuple):
    title: str
    text: str


@cache
def _page(root_path: str, task: str) -> str:
    introduction, *parts = source(task).split("\n## ")
    tabs = [_Tab(*part.split("\n", 1)) for part in parts]
    markdown = MarkdownIt().enable("table")
    shown: dict[str, Any] = {
        "root": root_path,
        "title": html.escape(TASKS[task]),
        "tasks": "".join(
            f'<a href="{root_path}/guide/{name}"{" aria-current=page" if name == task else ""}>'
            f"{html.escape(title)}</a>"
            for name, title in TASKS.items()
        ),
        "introduction": markdown.render(introduction),
        "tabs": "".join(
            f'<input type="radio" name="tab" id="tab{at}"{" checked" if not at else ""}>'
            f'<label for="tab{at}">{html.escape(tab.title)}</label>'
            for at, tab in enumerate(tabs)
        ),
        "panels": "".join(f"<section>{markdown.render(tab.text)}</section>" for tab in tabs),
    }
    page = (files("headgate.app") / "guide.html").read_text("utf-8")
    for name, text in shown.items():
        page = page.replace(f"<!--{name}-->", text)
    return page
