"""Stylesheet: what the pages of the gateway have in common. `app/page.css` is its text."""

from functools import cache
from importlib.resources import files

from fastapi import APIRouter, Response

from headgate.app.http.pages import FILE_HEADERS
from headgate.app.runtime.threads import PAGES

router = APIRouter()  # a part of pages, not an operation


@router.get("/page.css", include_in_schema=False)
async def show_stylesheet() -> Response:
    """Return the stylesheet."""
    text = await PAGES.call_if_awaited(_stylesheet)
    return Response(text, media_type="text/css", headers=FILE_HEADERS)


@cache
def _stylesheet() -> str:
    return (files("headgate.app") / "page.css").read_text("utf-8")
