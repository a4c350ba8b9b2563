"""Results: what was measured, kept as JSON, and all of it in one table as Markdown."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.bench.figures import HEADS, Figure, markdown

FOLDER = Path(__file__).parent / "results"
_FIGURES = FOLDER / "bench.json"


def keep_figures(part: str, figures: Sequence[Figure]) -> None:
    """Put the figures of a part in place of its older ones; the other parts stay."""
    known = _figures()
    known[part] = [asdict(figure) for figure in figures]
    keep("bench", table(known), known)


def table(parts: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Return the figures of all parts as one table."""
    rows = []
    for part, figures in parts.items():
        rows.append([f"**{part}**", *[""] * (len(HEADS) - 1)])
        rows += [Figure(**figure).cells() for figure in figures]
    return markdown(HEADS, rows)


def shown(parts: Sequence[str]) -> str:
    """Return the table of some parts as they are kept."""
    known = _figures()
    return table({part: known[part] for part in parts if part in known})


def keep(name: str, text: str, data: object) -> None:
    """Write a table as Markdown and what it shows as JSON."""
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.md").write_text(text)
    (FOLDER / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")


def _figures() -> dict[str, list[dict[str, Any]]]:
    figures: dict[str, list[dict[str, Any]]] = {}
    if _FIGURES.exists():
        figures = json.loads(_FIGURES.read_text())
    return figures
