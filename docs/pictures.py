"""Draws the README's picture: `.venv/bin/python docs/pictures.py` writes docs/images/prediction.svg."""

from pathlib import Path

import matplotlib
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from attangent import predict_training
from attangent.kernels import SoftmaxNetwork, log_gap, unit_data

STEPS = 300
COLOURS = {16: "#c0563b", 64: "#d9a441", 4096: "#3a7ca5"}


def draw_width(axes: Axes, m: int) -> None:
    X, Y = unit_data(8, 4, 4, seed=2)
    network = SoftmaxNetwork(d_in=4, d_out=4, m=m, sigma=0.5, seed=2)
    kernel = network.kernel(X)
    rate = 0.5 / (m * torch.linalg.eigvalsh(kernel)[-1].item())
    trained = network.descend(X, Y, rate, STEPS).loss
    predicted = predict_training(kernel, network.forward(X) - Y, rate, width=m).loss(range(STEPS + 1))
    gap = log_gap(trained, predicted)
    axes.semilogy(trained, color=COLOURS[m], lw=2.2, label=f"m = {m}: trained (largest gap {gap:.1e})")
    axes.semilogy(range(0, STEPS + 1, 12), predicted[::12], "o", ms=3.5, mfc="none", color=COLOURS[m])


def draw() -> Figure:
    figure = Figure(figsize=(7.2, 3.4), layout="constrained")
    axes = figure.subplots()
    for m in COLOURS:
        draw_width(axes, m)
    axes.plot([], [], "o", ms=3.5, mfc="none", color="#555", label="predicted from the kernel at step 0")
    axes.set(xlabel="step of gradient descent", ylabel="training loss")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=9)
    return figure


if __name__ == "__main__":
    matplotlib.rcParams["svg.hashsalt"] = "attangent"
    folder = Path(__file__).parent / "images"
    folder.mkdir(exist_ok=True)
    draw().savefig(folder / "prediction.svg", metadata={"Date": None})
