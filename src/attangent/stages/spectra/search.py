"""The search for a truncation that helps, layer by layer and share by share, as LASER does it."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd
from torch import nn

from attangent._errors import AttangentError
from attangent._progress import track
from attangent.stages.spectra.edit import SpectrumEdit, edit_spectrum
from attangent.stages.spectra.weights import attention_weights

Metric = Callable[[nn.Module], float]


@dataclass(frozen=True, eq=False)
class SpectrumSearch:
    """What was tried: layer, target, rho, validation (the metric; higher is better), best first.

    `best` is the edit with the highest validation figure, None where none beats the model as it is;
    `test_before` and `test_after` are the other metric without and with it, and were not used to choose.
    """

    tried: pd.DataFrame
    validation_before: float
    best: SpectrumEdit | None
    test_before: float
    test_after: float


def search_spectrum(
    model: nn.Module,
    validate: Metric,
    test: Metric,
    *,
    targets: Sequence[str] = ("q", "k", "v", "o", "mlp"),
    layers: Iterable[int] | None = None,
    rhos: Sequence[float] = (0.5, 0.2, 0.1, 0.05, 0.01),
    quiet: bool = False,
) -> SpectrumSearch:
    """Keep the largest share rho of the singular values of one target in one layer at a time; take the best.

    validate, test: functions of the model that return a finite number, higher is better, on examples of
    their own: the edit is chosen by the first and judged by the second. `minus_loss(tokenizer, texts)` makes
    one of texts.
    """
    numbers = [block.layer for block in attention_weights(model, layers)]
    if not targets or not rhos:
        raise AttangentError(f"targets are {targets} and rhos {rhos}, expected one or more of each")
    plans = [(layer, target, rho) for layer in reversed(numbers) for target in targets for rho in rhos]
    edits = [edit_spectrum(model, "largest", rho=rho, targets=[t], layers=[n]) for n, t, rho in plans]
    before = _figure(validate, model, "validate")
    rows: list[dict[str, Any]] = []
    for (layer, target, rho), edit in track(list(zip(plans, edits, strict=True)), "spectra", quiet):
        with edit:
            figure = _figure(validate, model, f"validate at layer {layer}, {target}, rho {rho}")
        rows.append({"layer": layer, "target": target, "rho": rho, "validation": figure})
    place = max(range(len(rows)), key=lambda number: rows[number]["validation"])
    best = edits[place] if rows[place]["validation"] > before else None
    test_before = _figure(test, model, "test")
    test_after = test_before
    if best is not None:
        with best:
            test_after = _figure(test, model, "test")
    tried = pd.DataFrame(rows).sort_values("validation", ascending=False, ignore_index=True)
    return SpectrumSearch(tried, before, best, test_before, test_after)


def _figure(metric: Metric, model: nn.Module, what: str) -> float:
    value = metric(model)
    try:
        figure = float(value)
    except (TypeError, ValueError):
        figure = float("nan")
    if not abs(figure) < float("inf"):
        raise AttangentError(f"{what} returned {value!r}, expected a finite number, higher being better")
    return figure
