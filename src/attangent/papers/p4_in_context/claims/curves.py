"""Figures 2a and 2b: losses that fall together."""

import torch
from torch import Tensor

from attangent.audit import Conclusion, Figure, Series
from attangent.papers.common.figures import plot


def fall(losses: Tensor) -> float:
    """Return the last loss divided by the first."""
    return (losses[-1] / losses[0]).item()


def fall_lines(losses: dict[str, Tensor]) -> list[Conclusion]:
    """Return one conclusion per loss: it ends below its start."""
    return [
        Conclusion(f"{name} at the end / at the start", "<=", 1.0, fall(values))
        for name, values in losses.items()
    ]


def alike_lines(
    name: str, losses: dict[str, Tensor], least_correlation: float, largest_fall: float
) -> tuple[Conclusion, ...]:
    """Conclude, with our thresholds, that the out-of-domain loss follows `name` and all three fall far."""
    a, b = (losses[of].double().log() for of in ("out-of-domain loss", name))
    correlation = torch.corrcoef(torch.stack([a, b]))[0, 1].item()
    follows = f"correlation of log out-of-domain with log {name.removesuffix(' loss')}"
    least_fallen = max(map(fall, losses.values()))
    return (
        Conclusion(f"{follows}, positive", ">=", 0.0, correlation),
        Conclusion(follows, ">=", least_correlation, correlation, threshold="ours"),
        Conclusion("largest of the three falls", "<=", largest_fall, least_fallen, threshold="ours"),
    )


def curves_figure(title: str, steps: Tensor, curves: dict[str, Tensor]) -> Figure:
    series = tuple(Series.of(name, steps, losses) for name, losses in curves.items())
    return plot(title, ("step", "loss"), *series, log="y")
