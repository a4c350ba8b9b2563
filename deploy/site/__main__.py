"""Writes the site into a folder: `python -m deploy.site [--root /path] FOLDER`.

Each page is `index.html` in a folder with its name, so any server of files serves it.
"""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

from headgate.app.routes import guide, pages
from headgate.app.wire.explanations import EXPLANATIONS


def write_site(folder: Path, root_path: str = "") -> None:
    """Write the site; `root_path` is a path prefix such as `/headgate`."""
    shutil.rmtree(folder, ignore_errors=True)
    for name, content in _files(root_path):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def _files(root_path: str) -> Iterator[tuple[str, bytes]]:
    app = files("headgate.app")
    first = next(iter(guide.TASKS))
    for task in guide.TASKS:
        page = guide.page_of(root_path, task, guide.GuideHome.SITE).encode()
        yield f"guide/{task}/index.html", page
        if task == first:
            yield "index.html", page
            yield "guide/index.html", page
    yield "guide/pages.json", guide.searched_pages()
    for name in guide.PICTURES:
        yield f"guide/{name}.svg", (app / "guide" / f"{name}.svg").read_bytes()
    yield "problems/index.html", pages.page_of(root_path, None).encode()
    for code in EXPLANATIONS:
        yield f"problems/{code}/index.html", pages.page_of(root_path, code).encode()
    yield "page.css", (app / "page.css").read_bytes()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--root", default="", help="what stands before all paths")
    chosen = parser.parse_args()
    write_site(chosen.folder, chosen.root.rstrip("/"))


if __name__ == "__main__":
    main()
