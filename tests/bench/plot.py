"""The picture of growth: one panel for the stream, one for what is pending."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from tests.bench.table import short

if TYPE_CHECKING:
    from tests.bench.growth import Curve

LABEL_STEP = 1.3  # names of lines that end close together are set apart
TITLES = {"entries": "entries in the stream", "pending": "pending entries of the group"}


def plot(curves: Sequence[Curve], path: Path) -> None:
    """Draw the median time of each operation by size, both axes by powers of ten."""
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - slow, and only needed here
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    plt.rcParams["svg.hashsalt"] = "headgate"  # the same figures make the same file
    plt.rcParams["svg.fonttype"] = "none"  # text stays text
    figure, panels = plt.subplots(1, 2, figsize=(13, 5), sharey=True, layout="constrained")
    for panel, (grows, title) in zip(panels, TITLES.items(), strict=True):
        shown = sorted((one for one in curves if one.grows == grows), key=_last)
        sizes, below = shown[0].sizes, 0.0
        for curve in shown:
            (line,) = panel.plot(sizes, curve.median_us, marker="o", linewidth=1.8)
            below = max(_last(curve), below * LABEL_STEP)
            name = f"{curve.work}  ({curve.ratio:.1f} ×)"
            panel.text(sizes[-1] * 1.3, below, name, color=line.get_color(), va="center")
        panel.set(xscale="log", yscale="log", xlabel=title, ylim=(1, 10_000))
        panel.set_xlim(sizes[0] / 1.5, sizes[-1] * 300)  # room for the names of the lines
        panel.set_xticks(sizes, [short(size) for size in sizes])
        panel.set_xticks([], minor=True)
        panel.set_yticks([1, 10, 100, 1000, 10_000], ["1", "10", "100", "1 k", "10 k"])
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    panels[0].set_ylabel("median time of one operation, µs")
    figure.suptitle("What one operation costs as everything grows (last size : first size)")
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _last(curve: Curve) -> float:
    return curve.median_us[-1]
