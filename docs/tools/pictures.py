"""Draws the pictures of README and landing page: `python -m docs.tools.pictures` writes them to docs/images.

compression.svg: the numbers of the table of docs/compress.md, from benchmarks/results. prediction.svg:
networks are trained while it is drawn. verdicts.svg: from the table of docs/audit-results.md, which
`attangent report` writes.
"""

import re
from collections import Counter, defaultdict
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from attangent import predict_training
from attangent.kernels import SoftmaxNetwork, log_gap, unit_data
from benchmarks.suites.compression.means import columns_of, groups

FOLDER = Path(__file__).parents[1]
STEPS = 300
COLOURS = {16: "#c0563b", 64: "#d9a441", 4096: "#3a7ca5"}
METHODS = {
    "recall": "#c0563b",
    "recall, distilled": "#7a2e1d",
    "KVSculpt": "#6a9a5b",
    "Attention Matching": "#d9a441",
    "KVzip": "#3a7ca5",
    "KVgrad": "#6b6b6b",
    "KVCompose": "#a58ac2",
}
PANELS = ("new documents", "handbooks", "needles", "handbooks, Gemma 3 270M")
VERDICTS = {
    "holds": "#3a7d44",
    "measured": "#9bc49a",
    "open": "#d9d9d9",
    "smaller setting": "#bfc9d1",
    "not reproduced": "#e3b778",
    "a slip, quotation, constant or remark fails": "#eebfb3",
    "a proof step or definition fails": "#d98b77",
    "a result is false": "#b23a23",
}
SLIGHT = "a slip, quotation, constant or remark fails"
FAILURES = {
    "false result": "a result is false",
    "wrong definition or assumption": "a proof step or definition fails",
    "false proof step": "a proof step or definition fails",
}


def blank(size: tuple[float, float] = (5.4, 3.4)) -> tuple[Figure, Axes]:
    figure = Figure(figsize=size, layout="constrained")
    axes = figure.subplots()
    axes.spines[["top", "right"]].set_visible(False)
    return figure, axes


def draw_width(axes: Axes, m: int) -> None:
    X, Y = unit_data(8, 4, 4, seed=2)
    network = SoftmaxNetwork(d_in=4, d_out=4, m=m, sigma=0.5, seed=2)
    kernel = network.kernel(X)
    rate = 0.5 / (m * torch.linalg.eigvalsh(kernel)[-1].item())
    trained = network.descend(X, Y, rate, STEPS).loss
    predicted = predict_training(kernel, network.forward(X) - Y, rate, width=m).loss(range(STEPS + 1))
    gap = log_gap(trained, predicted)
    axes.semilogy(trained, color=COLOURS[m], lw=2.2, label=f"width {m}: trained (largest gap {gap:.1e})")
    axes.semilogy(range(0, STEPS + 1, 12), predicted[::12], "o", ms=3.5, mfc="none", color=COLOURS[m])


def prediction() -> Figure:
    """The loss of three networks, trained and as the kernel at step 0 predicts it."""
    figure, axes = blank()
    for m in COLOURS:
        draw_width(axes, m)
    axes.plot([], [], "o", ms=3.5, mfc="none", color="#555", label="predicted before the first step")
    axes.set(xlabel="step of gradient descent", ylabel="training loss")
    axes.legend(frameon=False, fontsize=9)
    return figure


def compression() -> Figure:
    """Answers kept against how many times smaller the prompt is: one panel per group of prompts."""
    figure = Figure(figsize=(7.6, 5.0), layout="constrained")
    chosen = {name: rows for name, rows in groups().items() if name in PANELS}
    panels = figure.subplots(2, 2, sharex=True, sharey=True).flat
    for axes, (name, rows) in zip(panels, chosen.items(), strict=True):
        draw_group(axes, rows)
        axes.set_title(name, fontsize=10)
        axes.spines[["top", "right"]].set_visible(False)
    figure.supxlabel("times smaller", fontsize=10)
    figure.supylabel("answers, % of the full prompt's", fontsize=10)
    handles = [Line2D([], [], color=colour, marker="o", lw=2) for colour in METHODS.values()]
    labels = ["attangent", "attangent, trained", *list(METHODS)[2:]]
    figure.legend(handles, labels, frameon=False, fontsize=9, loc="outside upper center", ncols=4)
    return figure


def draw_group(axes: Axes, rows: list[dict]) -> None:
    """Draw all points of a group; only prompts on which a method was measured count."""
    axes.axhline(100, color="#999", lw=1.2, ls="--")
    for method, colour in METHODS.items():
        sums = [(column.many, column.sum(method), column.full) for column in columns_of(rows)]
        points = [(many, 100 * total / full) for many, total, full in sums if total is not None]
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=colour, lw=2)
    axes.set(xscale="log", xticks=[4, 8, 16, 32], xticklabels=["4x", "8x", "16x", "32x"], ylim=(-4, 118))
    axes.minorticks_off()


def verdict_counts() -> dict[str, Counter[str]]:
    """Count the verdicts on the statements of each paper, without our statements; failures by weight."""
    page = (FOLDER / "audit-results.md").read_text().partition("## Our statements")[0]
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for line in page.splitlines():
        found = re.match(r"\| (P\d)/\S+ \| [\w ]+ \| ([\w ]+) \| ([\w ]*) \|", line)
        if found:
            verdict = found[2].strip()
            counts[found[1]][
                FAILURES.get(found[3].strip(), SLIGHT) if verdict == "violated" else verdict
            ] += 1
    return dict(sorted(counts.items()))


def verdicts() -> Figure:
    """One bar for each paper, in the colours of the verdicts."""
    counts = verdict_counts()
    figure, axes = blank((7.0, 4.2))
    papers = list(counts)[::-1]
    names = [
        f"{paper}\n(version withdrawn\nin December 2024)" if paper == "P3" else paper for paper in papers
    ]
    left = [0] * len(papers)
    for verdict, colour in VERDICTS.items():
        widths = [counts[paper][verdict] for paper in papers]
        bars = axes.barh(names, widths, left=left, color=colour, label=verdict)
        dark = verdict in ("holds", "a result is false")
        labels = [str(width) if width > 1 else "" for width in widths]
        axes.bar_label(bars, labels, label_type="center", color="w" if dark else "#333", fontsize=9)
        left = [before + width for before, width in zip(left, widths, strict=True)]
    axes.set(xlabel="statements")
    figure.legend(frameon=False, fontsize=8.5, loc="outside upper center", ncols=3, handlelength=1.2)
    return figure


PICTURES = {"compression": compression, "prediction": prediction, "verdicts": verdicts}

if __name__ == "__main__":
    matplotlib.rcParams["svg.hashsalt"] = "attangent"
    (FOLDER / "images").mkdir(exist_ok=True)
    for name, draw in PICTURES.items():
        draw().savefig(FOLDER / "images" / f"{name}.svg", metadata={"Date": None})
