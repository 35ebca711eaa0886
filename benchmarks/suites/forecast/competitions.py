"""`ATTANGENT_DATA=folder python -m benchmarks.suites.forecast.competitions [--rivals PYTHON] [--jobs 2]
[--out FILE]`.

Forecasts the nine sets of folder/mcomp (M1, M3, tourism, hospital) with defaults and writes the table of
docs/forecast.md: MASE of every model and rival, relative to the seasonal naive forecast, the share of values
within the intervals, weighted quantile loss, seconds. Only the training parts are read by the models. With
`--rivals` FLAIR, LightGBM and models of statsforecast run under that interpreter, which has them (they need
pandas below 3). A geometric mean is given for models that ran on every set.
AutoARIMA is given every 20th monthly and every 4th quarterly series, all others every series; a ratio is
always on the series that the model was given. Forecasts of rivals are kept beside the table.
"""

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from attangent._core.errors import AttangentError
from attangent._core.files import write_whole
from attangent._core.progress import track
from attangent.forecast.data.panel import Panel
from attangent.forecast.pipeline.backtest import Backtest
from attangent.forecast.pipeline.combination import PanelRequest, candidates, forecast_panel
from attangent.forecast.pipeline.evaluation import coverage, mase, weighted_quantile_loss

Array = NDArray[np.float64]

SETS = {
    "m1_yearly": (1, 6), "m1_quarterly": (4, 8), "m1_monthly": (12, 18),
    "m3_yearly": (1, 6), "m3_quarterly": (4, 8), "m3_monthly": (12, 18),
    "tourism_quarterly": (4, 8), "tourism_monthly": (12, 24), "hospital": (12, 12),
}  # fmt: skip
"""Period and horizon."""
NAIVE = {
    "m1_yearly": 4.894, "m1_quarterly": 2.078, "m1_monthly": 1.314, "m3_yearly": 3.172, "m3_quarterly": 1.425,
    "m3_monthly": 1.146, "tourism_quarterly": 1.699, "tourism_monthly": 1.631, "hospital": 0.921,
}  # fmt: skip
"""MASE of the seasonal naive forecast: what a right reading of the sets gives."""
PUBLISHED = {"TiRex": 0.822, "AutoTheta": 0.835, "TimesFM-2.0": 0.848, "Chronos-Bolt": 0.884}
"""Geometric means over these sets in fev's table chronos_zeroshot."""
PUBLISHED_LOSS = 0.659
RIVALS = ("FLAIR", "LightGBM", "AutoETS", "AutoTheta", "AutoARIMA")
QUANTILES = np.arange(1, 10) / 10
PROBABILITIES = (0.025, 0.1, 0.9, 0.975, *QUANTILES)


@dataclass(frozen=True)
class Competition:
    """A set: series longest first, their test parts (N, H)."""

    name: str
    ids: list[str]
    train: list[Array]
    test: Array

    @property
    def panel(self) -> Panel:
        return Panel.of(self.train, SETS[self.name][0])


def load(folder: Path, name: str) -> Competition:
    path = folder / "mcomp" / f"{name}.csv.gz"
    if not path.is_file():
        raise AttangentError(f"there is no {path}: set ATTANGENT_DATA to a folder that holds mcomp/")
    rows = pd.read_csv(path)
    parts = {part: dict(iter(group.groupby("unique_id")["y"])) for part, group in rows.groupby("part")}
    ids = sorted(parts["train"], key=lambda one: -len(parts["train"][one]))
    return Competition(
        name,
        ids,
        [parts["train"][one].to_numpy(dtype=np.float64) for one in ids],
        np.stack([parts["test"][one].to_numpy(dtype=np.float64) for one in ids]),
    )


def ours(data: Competition) -> list[dict]:
    """A row for each of our models and one for `auto`, which is timed and has intervals."""
    panel, horizon = data.panel, SETS[data.name][1]
    start = time.process_time()
    found = forecast_panel(panel, PanelRequest(horizon, panel.period, PROBABILITIES))
    seconds = time.process_time() - start
    scale, q = panel.scale, found.quantiles
    tried = candidates(Backtest.of(panel, horizon))
    rows = [
        {"model": name, "mase": float(mase(data.test, panel.non_negative(one.forecasts), scale).mean())}
        for name, one in tried.items()
    ]
    auto = {
        "model": "attangent auto",
        "mase": float(mase(data.test, found.forecasts, scale).mean()),
        "seconds": seconds,
        "coverage 80": coverage(data.test, q[:, :, 1], q[:, :, 2]),
        "coverage 95": coverage(data.test, q[:, :, 0], q[:, :, 3]),
        "wql": weighted_quantile_loss(data.test, q[:, :, 4:], QUANTILES),
        "naive wql": naive_loss(data),
        "chosen": found.model,
    }
    naive = rows[1]["mase"]
    if abs(naive / NAIVE[data.name] - 1) > 1e-3:
        raise AttangentError(
            f"{data.name}: the seasonal naive forecast has {naive:.4f}, expected {NAIVE[data.name]}"
        )
    return [{"set": data.name, "naive": naive, **row} for row in (auto, *rows)]


def naive_loss(data: Competition, rows: Sequence[int] | None = None) -> float:
    """Return the loss of the seasonal naive forecast as all quantiles: fev's table divides by it."""
    chosen = slice(None) if rows is None else list(rows)
    repeated = np.repeat(last_season_of(data)[chosen, :, None], len(QUANTILES), axis=2)
    return weighted_quantile_loss(data.test[chosen], repeated, QUANTILES)


def naive_quantiles(series: list[Array], period: int, horizon: int, probabilities: Sequence[float]) -> Array:
    """Return y_{T - m + h} + z_p s sqrt(number of seasons), s the root mean square seasonal step."""
    from scipy.special import ndtri

    rows = []
    for values in series:
        m = period if len(values) > period else 1
        last = np.resize(values[len(values) - m :], horizon)
        spread = np.sqrt(np.square(values[m:] - values[:-m]).mean() * (np.arange(horizon) // m + 1))
        rows.append(last[:, None] + spread[:, None] * ndtri(np.asarray(probabilities)))
    return np.stack(rows)


def every(model: str, period: int) -> int:
    return {1: 1, 4: 4, 12: 20}[period] if model == "AutoARIMA" else 1


def rival(data: Competition, model: str, python: str, source: Path, kept: Path) -> dict:
    """A row for another model, from forecasts that are kept once they are made."""
    period, horizon = SETS[data.name]
    path, clock = kept / f"{data.name}-{model}.csv", kept / f"{data.name}-{model}.seconds"
    if not clock.is_file():
        command = [python, "-m", "benchmarks.suites.forecast.rivals", model, str(period), str(horizon)]
        command += [str(every(model, period)), "1", str(source), str(path)]
        ran = subprocess.run(command, capture_output=True, text=True, check=False)
        if ran.returncode:
            raise AttangentError(f"{model} failed on {data.name}: {ran.stderr.strip().splitlines()[-1]}")
        write_whole(clock, ran.stdout.strip().splitlines()[-1])
    frame = pd.read_csv(path)
    frame["ahead"] = frame.groupby("unique_id").cumcount()
    wide = frame.pivot_table(index="unique_id", columns="ahead")
    ends = {column: wide[column] for column in frame.columns[2:-1]}
    mean = ends["mean"]
    chosen = [k for k, one in enumerate(data.ids) if one in mean.index]
    ids = [data.ids[k] for k in chosen]
    test, scale = data.test[chosen], data.panel.scale[chosen]
    naive = float(mase(test, last_season_of(data)[chosen], scale).mean())
    row = {"set": data.name, "model": model, "naive": naive, "series": len(chosen)}
    row |= {"mase": float(mase(test, mean.loc[ids].to_numpy(), scale).mean())}
    for level, low, high in ((80, "q0.1", "q0.9"), (95, "q0.025", "q0.975")):
        row[f"coverage {level}"] = coverage(
            test, ends[low].loc[ids].to_numpy(), ends[high].loc[ids].to_numpy()
        )
    tenths = np.stack([ends[f"q{p:g}"].loc[ids].to_numpy() for p in QUANTILES], axis=2)
    row["wql"] = weighted_quantile_loss(test, tenths, QUANTILES)
    row["naive wql"] = naive_loss(data, chosen)
    return row | {"seconds": float(clock.read_text())}


def last_season_of(data: Competition) -> Array:
    return data.panel.repeated(SETS[data.name][1])["seasonal"]


def table(rows: Iterable[dict]) -> str:
    """Markdown: relative MASE by set and model with geometric means, then coverage and seconds."""
    frame = pd.DataFrame(list(rows))
    frame["relative"] = frame["mase"] / frame["naive"]
    wide = frame.pivot_table(values="relative", index="set", columns="model", sort=False)
    wide.loc["geometric mean"] = np.exp(np.log(wide).mean(skipna=False))
    sums = frame.groupby("model", sort=False)
    lines = ["MASE relative to the seasonal naive forecast:", "", markdown(wide.round(3)), ""]
    auto = frame[frame["model"] == "attangent auto"].set_index("set")
    shown = auto[["chosen", "mase", "coverage 80", "coverage 95", "wql", "naive wql", "seconds"]].round(3)
    lines += ["attangent auto:", "", markdown(shown), ""]
    frame["loss"] = frame["wql"] / frame["naive wql"]
    loss = frame.pivot_table(values="loss", index="set", columns="model", sort=False)
    loss.loc["geometric mean"] = np.exp(np.log(loss).mean(skipna=False))
    lines += [
        "Weighted quantile loss relative to the seasonal naive forecast without intervals (published for "
        f"TiRex: geometric mean {PUBLISHED_LOSS}):",
        "",
        markdown(loss.round(3)),
        "",
    ]
    cover = sums[["coverage 80", "coverage 95"]].mean().dropna().round(3)
    cover["seconds"] = sums["seconds"].sum().round(1)
    lines += ["Mean over the sets, and seconds of processor time in all:", "", markdown(cover), ""]
    lines += [
        "Published geometric means (fev, chronos_zeroshot): "
        + ", ".join(f"{k} {v}" for k, v in PUBLISHED.items())
    ]
    return "\n".join(lines) + "\n"


def markdown(frame: pd.DataFrame) -> str:
    head = ["", *map(str, frame.columns)]
    body = [
        [str(name), *("" if pd.isna(cell) else str(cell) for cell in row)]
        for name, row in zip(frame.index, frame.to_numpy(), strict=True)
    ]
    return "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *body))


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.suites.forecast.competitions", description=__doc__
    )
    parser.add_argument(
        "--rivals", metavar="PYTHON", help="an interpreter with statsforecast, mlforecast and flaircast"
    )
    parser.add_argument(
        "--kept", type=Path, default=Path("benchmarks/.competitions"), help="rivals' forecasts"
    )
    parser.add_argument("--jobs", type=int, default=2, help="sets that are forecast at once")
    parser.add_argument(
        "--out", type=Path, default=Path("benchmarks/results/competitions.md"), help="the table"
    )
    parser.add_argument("--kept-only", action="store_true", help="no new forecasts of rivals")
    options = parser.parse_args()
    folder = Path(os.environ.get("ATTANGENT_DATA", "."))
    try:
        from joblib import Parallel, delayed

        competitions = [load(folder, name) for name in SETS]
        start = time.perf_counter()
        found = Parallel(n_jobs=options.jobs)(delayed(ours)(one) for one in competitions[::-1])
        rows = [row for part in found for row in part]
        seconds = time.perf_counter() - start
        rows.sort(key=lambda row: list(SETS).index(row["set"]))
        if options.rivals:
            options.kept.mkdir(parents=True, exist_ok=True)
            pairs = [(one, model) for model in RIVALS for one in competitions]
            if options.kept_only:
                pairs = [(o, m) for o, m in pairs if (options.kept / f"{o.name}-{m}.seconds").is_file()]
            for one, model in track(pairs, "rivals"):
                source = folder / "mcomp" / f"{one.name}.csv.gz"
                rows.append(rival(one, model, options.rivals, source, options.kept))
    except AttangentError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    text = table(rows) + f"\nOur own models, all sets, {options.jobs} processes: {seconds:.1f} s.\n"
    write_whole(options.out, text)
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
