"""Pictures: costs by the size of the stream and of the PEL, and the course of a soak."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.bench.figures import short

if TYPE_CHECKING:
    from tests.bench.growth import Curve

LABEL_STEP = 1.45  # names of lines that end close together are set apart
TITLES = {"entries": "entries in the stream", "pending": "pending entries of the group"}


def plot(curves: Sequence[Curve], path: Path) -> None:
    """Draw the median time of each operation by size, both axes by powers of ten."""
    plt = _pyplot()
    if plt is None:
        return
    figure, panels = plt.subplots(1, 2, figsize=(13, 5), sharey=True, layout="constrained")
    for panel, (grows, title) in zip(panels, TITLES.items(), strict=True):
        shown = sorted((curve for curve in curves if curve.grows == grows), key=_last)
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


def plot_soak(samples: Sequence[Mapping[str, float]], path: Path) -> None:
    """Draw memory and delays over the time of a soak."""
    plt = _pyplot()
    if plt is None:
        return
    at_s = [sample["at_s"] for sample in samples]
    figure, panels = plt.subplots(2, 1, figsize=(9, 6), sharex=True, layout="constrained")
    panels[0].plot(at_s, [sample["resident_mib"] for sample in samples])
    panels[0].set(ylabel="memory, MiB", ylim=(0, None))
    for name in ("append_p99_ms", "delivery_p99_ms", "append_p50_ms", "delivery_p50_ms"):
        label = name.removesuffix("_ms").replace("_", ", ")
        panels[1].plot(at_s, [sample[name] for sample in samples], label=label)
    panels[1].set(ylabel="ms", xlabel="seconds", yscale="log")
    panels[1].legend(ncols=4, frameon=False, loc="lower left", bbox_to_anchor=(0, 1))  # above it
    panels[1].yaxis.set_major_formatter("{x:g}")
    for panel in panels:
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, metadata={"Date": None})
    plt.close(figure)


def _pyplot() -> Any:
    try:
        from matplotlib import pyplot as plt  # noqa: PLC0415 - slow, and only needed here
    except ImportError:
        print("no picture: matplotlib is not installed")
        return None
    plt.rcParams["svg.hashsalt"] = "headgate"  # the same figures make the same file
    plt.rcParams["svg.fonttype"] = "none"  # text stays text
    return plt


def _last(curve: Curve) -> float:
    return curve.median_us[-1]
