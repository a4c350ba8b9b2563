"""Problem pages: the meaning and the remedy of each problem, behind its `type`."""

import html
from functools import cache, partial
from importlib.resources import files
from typing import get_args

from fastapi import APIRouter, Request, Response

from headgate.app.http.pages import PAGE_HEADERS, page_headers
from headgate.app.runtime.threads import PAGES
from headgate.app.wire.explanations import EXPLANATIONS, Explanation
from headgate.app.wire.problems import Code, GatewayError, status_of

router = APIRouter()  # pages, not operations


@router.get("/problems", include_in_schema=False)
async def list_problems(request: Request) -> Response:
    """Show all problems with what they mean."""
    return await _answer(request, None)


@router.get("/problems/{code}", include_in_schema=False)
async def explain_problem(request: Request, code: str) -> Response:
    """Show the meaning and the remedy of a problem."""
    if code not in EXPLANATIONS:
        raise GatewayError("not_found", f"there is no problem {code[:64]!r}: see /problems")
    return await _answer(request, code)


async def _answer(request: Request, code: str | None) -> Response:
    if "text/html" in request.headers.get("accept", ""):
        page = await PAGES.call_if_awaited(partial(page_of, request.scope["root_path"], code))
        return Response(page, media_type="text/html", headers=page_headers(page))
    return Response(_text(code), media_type="text/plain", headers=PAGE_HEADERS)


@cache
def _text(code: str | None) -> str:
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
    """Return the page of a problem; None: of all."""
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
    """Return a text as HTML, with what stands between backticks as code."""
    parts = html.escape(text).split("`")
    return "".join(f"<code>{part}</code>" if at % 2 else part for at, part in enumerate(parts))
