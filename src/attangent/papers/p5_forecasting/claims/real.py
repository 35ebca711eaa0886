"""Sections 1 and 3 on real series: ETT if it is installed, otherwise the weather sample of the package.

With the weather sample, a finding says so under `differs` and names the command that downloads ETT.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.audit.registry import claim
from attangent.data.catalogue import sample
from attangent.data.places import data_file
from attangent.papers.p5_forecasting.deep.attention_forecasters import (
    Encoder,
    InvertedTransformer,
    PatchTST,
    VanillaTransformer,
)
from attangent.papers.p5_forecasting.deep.encoder_decoders import Autoformer, Informer
from attangent.papers.p5_forecasting.deep.training import Training, epochs_since_best
from attangent.papers.p5_forecasting.windows.closed_form import LinearForecaster, Persistence
from attangent.papers.p5_forecasting.windows.forecaster import Forecaster, every_window
from attangent.papers.p5_forecasting.windows.protocol import Dataset, evaluate_windows, load_csv

PATIENCE = 3
"""Number of epochs without a lower validation error after which training ends."""
STAND_IN = "weather"
ABSENT = "The ETT series are not installed: `attangent data get ett` downloads them (CC BY-ND 4.0)."


def series_to_take(wanted: Sequence[str]) -> dict[str, Dataset]:
    """Return the ETT series with their published split, or the weather sample if one of them is missing."""
    paths = {name: data_file(f"ett/{name}.csv.gz") for name in wanted}
    installed = {name: load_csv(path, split="ett") for name, path in paths.items() if path is not None}
    return installed if len(installed) == len(wanted) else {STAND_IN: load_csv(sample(STAND_IN))}


def _other_data(taken: dict[str, Dataset], wanted: Sequence[str]) -> tuple[str, ...]:
    """Describe the data if they are not those of the paper."""
    if STAND_IN not in taken:
        return ()
    return (f"1,461 days of weather in Seattle instead of {' and '.join(wanted)}",)


_TRANSFORMERS = {
    "transformer": VanillaTransformer,
    "inverted": InvertedTransformer,
    "PatchTST": PatchTST,
    "Informer": Informer,
    "Autoformer": Autoformer,
}


def _forecasters(settings: Settings, seed: int) -> dict[str, Forecaster]:
    """Return the transformers of `models`, which maps each name to its batches per epoch."""
    L = settings.lookback
    H = settings.horizon
    size = Encoder(settings.width, settings.heads, settings.layers)
    plans = {
        name: Training(
            epochs=settings.epochs,
            rate=settings.rate,
            batches=batches,
            patience=PATIENCE,
            seed=seed,
            validation_windows=settings.validation,
        )
        for name, batches in settings.models.items()
    }
    return {
        name: _TRANSFORMERS[name](L, H, replace(size, heads=1) if name == "Autoformer" else size, plan)
        for name, plan in plans.items()
    }


_SMALL = {
    "lookback": 36,
    "width": 16,
    "heads": 2,
    "layers": 1,
    "epochs": 60,
    "rate": 3e-3,
    "validation": 300,
}
_LARGER = {"lookback": 96, "width": 32, "heads": 4, "layers": 2, "rate": 1e-3}


@claim(
    "P5/figure-1a",
    place="Section 3, Figure 1 (a)",
    quote="despite Transformer-based methods having model parameters 1000 times larger ..., their prediction"
    " performance ... remains significantly inferior",
    title="Linear models compared with transformers on ETTh1 and ETTh2",
    statement="""On ETTh1 and ETTh2 linear models have a lower test error than transformers, all with the same
        look-back and on every test window.""",
    quick={
        **_SMALL,
        "horizon": 12,
        "models": {"transformer": 20, "inverted": 30},
        "series": ["ETTh1", "ETTh2"],
        "longer": {},
    },
    full={
        **_LARGER,
        "horizon": 96,
        "models": {"transformer": 40, "inverted": 100, "PatchTST": 100, "Informer": 40, "Autoformer": 25},
        "longer": {"lookback": 336, "models": {"transformer": 20, "inverted": 100, "PatchTST": 50}},
    },
    full_seeds=2,
    seconds=6.0,
    data=("ett/ETTh1.csv.gz", "ett/ETTh2.csv.gz"),
)
def linear_against_transformers(settings: Settings, seed: int) -> Finding:
    """Compare test errors with the given settings and, if there are `longer` ones, with those as well."""
    variants = [settings, settings | settings.longer] if settings.longer else [settings]
    conclusions = []
    hypotheses = []
    numbers = {}
    figures = []
    taken = series_to_take(settings.series)
    for variant, (name, dataset) in product(variants, taken.items()):
        models = _contenders(variant, seed)
        where = f"{name}, look-back {variant.lookback}"
        errors = {
            model: float(evaluate_windows(forecaster, dataset).mse[0]) for model, forecaster in models.items()
        }
        best = min(errors[model] for model in variant.models)
        hypotheses += [_has_stopped(f"{model} on {where}", models[model]) for model in variant.models]
        conclusions.append(
            Conclusion(f"error of the best transformer / linear, {where}", ">=", 1.0, best / errors["linear"])
        )
        numbers |= {f"{where}: {model}": error for model, error in errors.items()}
        bars = Series.of("mse", range(len(errors)), list(errors.values()), "bars")
        figures.append(Figure(where, "", "mean squared error", (bars,), ticks=tuple(errors)))
    return Finding(
        hypotheses=tuple(hypotheses),
        conclusions=tuple(conclusions),
        differs=(
            f"horizon {settings.horizon}, width {settings.width}; the figure quotes other papers, with their "
            "settings",
            *_other_data(taken, settings.series),
        ),
        numbers=numbers,
        figures=tuple(figures),
        remark=f"Transformers of width {settings.width} were trained until the validation error had not "
        f"fallen for {PATIENCE} epochs, for at most {settings.epochs} epochs. Batches of 32 windows per "
        f"epoch: {'; '.join(_batches(variant) for variant in variants)}. Larger transformers may do "
        f"better.{_hint(taken)}",
    )


def _hint(taken: dict[str, Dataset]) -> str:
    return f" {ABSENT}" if STAND_IN in taken else ""


def _contenders(settings: Settings, seed: int) -> dict[str, Forecaster]:
    return {
        "linear": LinearForecaster(settings.lookback, settings.horizon),
        "persistence": Persistence(settings.lookback, settings.horizon),
        **_forecasters(settings, seed),
    }


def _batches(settings: Settings) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in settings.models.items())
    return f"look-back {settings.lookback}: {counts}"


def _has_stopped(name: str, model: Forecaster) -> Hypothesis:
    """Require that training ended because the validation error stopped falling, not at the last epoch."""
    history = getattr(model, "history_", [])
    since = epochs_since_best(history) if history else PATIENCE
    return Hypothesis(f"epochs since the validation error last fell, {name}", ">=", PATIENCE, float(since))


@claim(
    "P5/sign-inconsistency-real",
    kind="ours",
    place="ours, on Section 1",
    title="Excess error on sign-inconsistent windows of real data",
    statement="""If the next value has another sign than the last one, the attention model loses more to the
        linear model than on other windows.""",
    quick={
        **_SMALL,
        "horizon": 1,
        "models": {"transformer": 30},
        "series": "ETTh1",
        "blocks": 40,
    },
    full={**_LARGER, "models": {"transformer": 40}, "blocks": 100},
    full_seeds=2,
    seconds=3.0,
    data=("ett/ETTh1.csv.gz",),
)
def excess_error(settings: Settings, seed: int) -> Finding:
    """Compare the excess error on sign-inconsistent windows with that on all others."""
    taken = series_to_take([settings.series])
    (dataset,) = taken.values()
    train = dataset.part("train")
    held_out = dataset.part("validation", settings.lookback)
    linear = LinearForecaster(settings.lookback, settings.horizon).fit(train, held_out)
    (name, attention), *_ = _forecasters(settings, seed).items()
    attention.fit(train, held_out)
    excess, signs = _excess(attention, linear, dataset.part("test", settings.lookback))
    ratio, low, high = _ratio(excess, signs, settings.blocks, seed)
    linear_alone, _ = _excess(linear, None, dataset.part("test", settings.lookback))
    return Finding(
        hypotheses=(_has_stopped(name, attention),),
        conclusions=(
            Conclusion(
                "excess on inconsistent windows / elsewhere, where the interval leaves out 1",
                ">=",
                1.0,
                math.nan if low <= 1 <= high else ratio,
            ),
        ),
        numbers={
            "ratio": ratio,
            "lower end of 95 %": low,
            "upper end of 95 %": high,
            "share of inconsistent windows": float(signs.mean()),
            f"error of {name}": float((excess + linear_alone).mean()),
            "error of linear": float(linear_alone.mean()),
            "error of linear on inconsistent windows / elsewhere": float(
                linear_alone[signs].mean() / linear_alone[~signs].mean()
            ),
        },
        differs=_other_data(taken, [settings.series]),
        remark="Compare the ratio with that of the linear model: windows that cross zero move more and are "
        f"hard for every model.{_hint(taken)}",
    )


def _excess(
    model: Forecaster, other: Forecaster | None, series: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return squared error less that of `other`, (windows, channels), and which windows change sign."""
    errors = []
    signs = []
    for inputs, targets in every_window(series, model.lookback, model.horizon):
        error = np.square(model.predict(inputs) - targets).mean(axis=1)
        if other is not None:
            error -= np.square(other.predict(inputs) - targets).mean(axis=1)
        errors.append(error)
        signs.append(inputs[:, -1] * targets[:, 0] < 0)
    return np.concatenate(errors), np.concatenate(signs)


def _ratio(
    excess: NDArray[np.float64], signs: NDArray[np.bool_], blocks: int, seed: int
) -> tuple[float, float, float]:
    """Return mean excess with / without a change of sign, and its 95 % interval by a block bootstrap."""
    rows = [
        (values[flip].sum(), flip.sum(), values[~flip].sum(), (~flip).sum())
        for values, flip in zip(np.array_split(excess, blocks), np.array_split(signs, blocks), strict=True)
    ]
    sums = np.array(rows, dtype=np.float64)
    drawn = sums[np.random.default_rng(seed).integers(0, blocks, (400, blocks))].sum(axis=1)

    def ratio(total: NDArray[np.float64]) -> NDArray[np.float64]:
        return (total[..., 0] / np.maximum(total[..., 1], 1)) / (total[..., 2] / total[..., 3])

    low, high = np.quantile(ratio(drawn), (0.025, 0.975))
    return float(ratio(sums.sum(axis=0))), float(low), float(high)
