"""Draws the pictures of README and landing page: `python docs/tools/pictures.py` writes them to docs/images.

compression.svg: from benchmarks/results/compress_results.json, which `python -m
benchmarks.suites.compression.bench_compress` writes. prediction.svg: networks are trained while it is
drawn. verdicts.svg: from the table of docs/audit-results.md, which `attangent report` writes.
"""

import json
import re
from collections import Counter, defaultdict
from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attangent import predict_training
from attangent.kernels import SoftmaxNetwork, log_gap, unit_data

FOLDER = Path(__file__).parents[1]
STEPS = 300
COLOURS = {16: "#c0563b", 64: "#d9a441", 4096: "#3a7ca5"}
METHODS = {"recall": "#c0563b", "KVzip": "#3a7ca5", "Attention Matching, sizes by head": "#d9a441"}
PROMPTS = ("observatory", "railway")
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
    """Questions answered over the memory of the prompt, summed over the prompts."""
    rows = json.loads((FOLDER.parent / "benchmarks" / "results" / "compress_results.json").read_text())[
        "rows"
    ]
    answers: dict[tuple[str, int], dict[str, dict]] = defaultdict(dict)
    for row in rows:
        answers[row["method"], row["times"]][row["prompt"]] = row
    whole = answers["full prompt", 1]
    full = sum(whole[name]["answers"] for name in PROMPTS)
    figure, axes = blank()
    axes.axhline(full, color="#999", lw=1.2, ls="--")
    axes.text(1, full, "whole prompt", ha="right", va="bottom", color="#666", fontsize=9)
    for method, colour in METHODS.items():
        points = []
        for times in (64, 32, 16, 8, 4):
            found = answers.get((method, times), {})
            if all(name in found for name in PROMPTS):
                bytes_of = sum(found[name]["bytes"] / whole[name]["bytes"] for name in PROMPTS)
                points.append((bytes_of / len(PROMPTS), sum(found[name]["answers"] for name in PROMPTS)))
        label = "attangent" if method == "recall" else method
        if points:
            axes.plot(*zip(*points, strict=True), "o-", color=colour, lw=2, label=label)
    axes.set(
        xscale="log",
        xlabel="memory of the prompt, share of its KV cache",
        ylabel=f"questions answered, of {sum(whole[name]['questions'] for name in PROMPTS)}",
        ylim=(0, 1.15 * full),
        xlim=(0.013, 1.05),
        xticks=[1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1],
        xticklabels=["1/64", "1/32", "1/16", "1/8", "1/4", "1"],
    )
    axes.minorticks_off()
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    return figure


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
