"""Docs: every operation, to read and to try. Its files are those of a package, and served here."""

from functools import cache, partial
from importlib.resources import files
from os import PathLike
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.openapi.docs import get_swagger_ui_html
from starlette.staticfiles import StaticFiles

from headgate.app.http.pages import FILE_HEADERS, page_headers
from headgate.app.runtime.threads import PAGES

router = APIRouter()  # pages, not operations

_FILES = "/static-offline-docs"

# The package has colours for the dark, and leaves the choice to the page.
_COLOURS = """\
<script>
const isDark = matchMedia("(prefers-color-scheme: dark)");
const choose = () => document.documentElement.classList.toggle("dark-mode", isDark.matches);
isDark.addEventListener("change", choose);
choose();
</script>
</head>"""


class _Files(StaticFiles):
    """Files that a browser takes for what their names say, and for nothing else."""

    def file_response(self, full_path: str | PathLike[str], *more: Any, **named: Any) -> Response:
        """Return a file."""
        answer = super().file_response(full_path, *more, **named)
        answer.headers.update(FILE_HEADERS)
        return answer


router.mount(_FILES, _Files(directory=str(files("fastapi_offline") / "static")), "docs-files")


@router.get("/docs", include_in_schema=False)
async def try_operations(request: Request) -> Response:
    """Show all operations."""
    page = await PAGES.call_if_awaited(partial(_page, request.scope["root_path"]))
    return Response(page, media_type="text/html", headers=page_headers(page))


@cache
def _page(root_path: str) -> str:
    """Return the page; its script puts the document into it."""
    page = get_swagger_ui_html(
        openapi_url=f"{root_path}/openapi.json",
        title="Headgate",
        swagger_js_url=f"{root_path}{_FILES}/swagger-ui-bundle.js",
        swagger_css_url=f"{root_path}{_FILES}/swagger-ui.css",
        swagger_favicon_url=f"{root_path}{_FILES}/favicon.png",
    )
    return bytes(page.body).decode().replace("</head>", _COLOURS)
