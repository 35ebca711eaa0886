# %% [markdown]
# # Forecast a thousand series
#
# You have many short series: sales of a thousand products, months long. You want forecasts for all of them, with
# intervals that can be trusted, in seconds and without choosing a model for each.
#
# In this tutorial you
#
# 1. put the series into one long table,
# 2. forecast all of them with one call,
# 3. check the forecasts against values that were held back,
# 4. check the intervals the same way.
#
# The series are 1,000 of the monthly series of the M3 forecasting competition if the environment variable
# `ATTANGENT_DATA` names a folder that holds `mcomp/m3_monthly.csv.gz`. Without it made-up sales take their place
# and every cell works the same.

# %%
import os
import time
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from attangent.forecast import SeriesForecaster

SMALL = "TUTORIAL_SMALL" in os.environ  # the tests run this page with a few series
COUNT, HORIZON, SEASON = (30 if SMALL else 1000), 18, 12


def made_up(count: int, months: int = 90, seed: int = 0) -> pd.DataFrame:
    """Sales with a level, a trend, a season and noise, all drawn for each product."""
    draw, t = np.random.default_rng(seed), np.arange(months)
    frames = []
    for number in range(count):
        season = draw.normal(0, 0.15, SEASON)[t % SEASON]
        trend = draw.normal(0, 0.004) * t + np.cumsum(draw.normal(0, 0.02, months))
        y = draw.uniform(50, 5000) * np.exp(season + trend + draw.normal(0, 0.06, months))
        frames.append(pd.DataFrame({"unique_id": f"product {number}", "step": t, "y": y}))
    return pd.concat(frames)


file = Path(os.environ.get("ATTANGENT_DATA", "."), "mcomp", "m3_monthly.csv.gz")
table = pd.read_csv(file) if file.exists() and not SMALL else made_up(COUNT)
table = table[table.unique_id.isin(table.unique_id.unique()[:COUNT])]
table["step"] = table.groupby("unique_id").cumcount()
table["ds"] = pd.to_datetime({"year": 1990 + table.step // 12, "month": table.step % 12 + 1, "day": 1})
print("real series" if file.exists() and not SMALL else "made-up series")
print(table.unique_id.nunique(), "series,", len(table), "values")
table[["unique_id", "ds", "y"]].head(3)

# %% [markdown]
# ## Hold the last 18 months back
#
# One row per series and month, in the columns `unique_id`, `ds`, `y`: that is all the format there is. The last 18
# values of each series are hidden from the forecaster and used as the test.

# %%
left = table.groupby("unique_id").cumcount(ascending=False)
past, future = table[left >= HORIZON], table[left < HORIZON]
start = time.process_time()
forecast = SeriesForecaster().fit(past[["unique_id", "ds", "y"]]).predict(h=HORIZON, level=[80, 95])
print(f"{forecast.unique_id.nunique()} series in {time.process_time() - start:.0f} seconds of one processor")
forecast.head(3)

# %% [markdown]
# ## How good are they?
#
# The honest rival is the *seasonal naive* forecast: repeat the last year. The error is MASE, the mean absolute error
# divided by the mean change from one year to the next in the past of the same series. A ratio below 1
# to the rival's MASE means better than the rival.

# %%
held = future.merge(forecast, on=["unique_id", "ds"])
assert len(held) == len(future)
last_year = past.groupby("unique_id").tail(SEASON)
repeated = {name: list(part.y) for name, part in last_year.groupby("unique_id")}
order = held.groupby("unique_id").cumcount()
held["naive"] = [repeated[name][k % SEASON] for name, k in zip(held.unique_id, order, strict=True)]
scale = past.groupby("unique_id").y.apply(lambda y: y.diff(SEASON).abs().mean())


def mase(column: str) -> pd.Series:
    """One number for each series."""
    errors = (held.y - held[column]).abs().groupby(held.unique_id).mean()
    return errors / scale[errors.index]


ours, naive = mase("attangent"), mase("naive")
print(
    f"mean MASE: {ours.mean():.3f}, seasonal naive {naive.mean():.3f}, ratio {ours.mean() / naive.mean():.3f}"
)
print(f"better than repeating the last year on {(ours < naive).mean():.0%} of the series")

# %% [markdown]
# ## Do the intervals hold?
#
# An 80 % interval should contain the true value 8 times in 10.

# %%
for level in (80, 95):
    inside = held.y.between(held[f"attangent-lo-{level}"], held[f"attangent-hi-{level}"])
    print(f"{level} % intervals held {inside.mean():.1%} of the values")

# %%
shown = ours.sort_values().index[[len(ours) // 10, len(ours) // 2, 9 * len(ours) // 10]]
figure, panels = plt.subplots(1, 3, figsize=(10, 2.8), layout="constrained")
for axes, series, how in zip(panels, shown, ("easy", "typical", "hard"), strict=True):
    before, after = past[past.unique_id == series], held[held.unique_id == series]
    axes.plot(before.ds[-48:], before.y[-48:], color="#555", lw=1)
    axes.plot(after.ds, after.y, color="#3a7ca5", lw=1.5, label="what came")
    axes.plot(after.ds, after.attangent, color="#c0563b", lw=1.5, label="forecast")
    band = {"color": "#c0563b", "lw": 0}
    axes.fill_between(after.ds, after["attangent-lo-95"], after["attangent-hi-95"], alpha=0.12, **band)
    axes.fill_between(after.ds, after["attangent-lo-80"], after["attangent-hi-80"], alpha=0.2, **band)
    axes.set_title(f"{how}: {series}", fontsize=9)
    axes.tick_params(axis="x", labelrotation=30, labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
_ = panels[0].legend(frameon=False, fontsize=8)

# %% [markdown]
# ## What next
#
# - On the command line: `attangent forecast many.csv --id product --date month --target sold --horizon 18
#   --out forecast.csv --report report.html`.
# - Prices, holidays and other things known in advance: `SeriesForecaster(covariates=["price"], holidays="DE")`.
# - What the models are, and how they compare with AutoETS, AutoARIMA and others on nine public sets:
#   [Forecast](../forecast.md).
