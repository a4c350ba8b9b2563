"""Figures as a table: here, at a peer, their ratio, what was aimed at, whether it was reached."""

import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

HEADS = ["work", "here", "from–to", "peer", "there", "from–to", "ratio", "target", "reached"]

Spread = tuple[float, float]
"""The least and the most of some rounds."""


@dataclass(frozen=True)
class Figure:
    """One line. `at_least` and `ratio_at_least` are targets; a smaller figure can be the better."""

    work: str
    here: float
    unit: str
    peer: str = ""
    there: float | None = None
    at_least: float | None = None
    ratio_at_least: float | None = None
    ratio_at_most: float | None = None
    at_most: float | None = None
    spread: Spread | None = None
    peer_spread: Spread | None = None

    @classmethod
    def of_rounds(
        cls,
        work: str,
        here: Sequence[float],
        unit: str,
        peer: str = "",
        there: Sequence[float] = (),
        **targets: float,
    ) -> Self:
        """Return the medians of rounds in which a peer took turns, if it was there."""
        if not there:
            peer = ""
        return cls(
            work,
            statistics.median(here),
            unit,
            peer,
            statistics.median(there) if there else None,
            spread=(min(here), max(here)),
            peer_spread=(min(there), max(there)) if there else None,
            **targets,
        )

    @property
    def ratio(self) -> float | None:
        return None if not self.there else self.here / self.there

    @property
    def reached(self) -> bool | None:
        """Tell whether every target that can be judged was reached; None without any."""
        verdicts = []
        if self.at_least is not None:
            verdicts.append(self.here >= self.at_least)
        if self.at_most is not None:
            verdicts.append(self.here <= self.at_most)
        if self.ratio is not None and self.ratio_at_least is not None:
            verdicts.append(self.ratio >= self.ratio_at_least)
        if self.ratio is not None and self.ratio_at_most is not None:
            verdicts.append(self.ratio <= self.ratio_at_most)
        return all(verdicts) if verdicts else None

    def cells(self) -> list[str]:
        targets = []
        if self.at_least is not None:
            targets.append(f"≥ {short(self.at_least)}")
        if self.at_most is not None:
            targets.append(f"≤ {short(self.at_most)} {self.unit}")
        if self.ratio_at_least is not None:
            targets.append(f"≥ {self.ratio_at_least:g} ×")
        if self.ratio_at_most is not None:
            targets.append(f"≤ {self.ratio_at_most:g} ×")
        return [
            self.work,
            f"{short(self.here)} {self.unit}",
            _from_to(self.spread),
            self.peer,
            "" if self.there is None else f"{short(self.there)} {self.unit}",
            _from_to(self.peer_spread),
            "" if self.ratio is None else f"{self.ratio:.2f} ×",
            ", ".join(targets),
            {True: "yes", False: "no", None: ""}[self.reached],
        ]


def p50_p99(values: Sequence[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile of two values or more."""
    parts = statistics.quantiles(values, n=100, method="inclusive")
    return parts[49], parts[98]


def size_of(text: str) -> int:
    """Return the bytes of a size such as `512MiB`, `20GB` or `20_000_000_000`."""
    match = re.fullmatch(r"([\d_]+(?:\.\d+)?) *([kMGT]?)(i?)B?", text.strip())
    if match is None:
        raise ValueError(f"{text} is no size such as 512MiB or 20GB")
    number, prefix, is_binary = match.groups()
    unit: int = (1024 if is_binary else 1000) ** " kMGT".index(prefix or " ")
    return round(float(number) * unit)


def _from_to(spread: Spread | None) -> str:
    return "" if spread is None else "–".join(map(short, spread))


def short(number: float) -> str:
    """Return a figure with three digits that count."""
    for size, suffix in ((1e6, " M"), (1e3, " k")):
        if number >= size:
            return f"{number / size:.3g}{suffix}"
    return f"{number:.3g}"


def markdown(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table whose columns line up."""
    lines = [heads, *rows]
    widths = [max(len(line[at]) for line in lines) for at in range(len(heads))]
    shown = [
        "| "
        + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        + " |"
        for line in lines
    ]
    rule = "|" + "|".join("-" * (width + 2) for width in widths) + "|"
    return "\n".join([shown[0], rule, *shown[1:]]) + "\n"
