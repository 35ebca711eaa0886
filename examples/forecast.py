"""Forecasts with intervals for many series at once.

Put your own table into `df`: one row for each series and time, in the columns unique_id, ds and y.
"""

import numpy as np
import pandas as pd

from attangent.forecast import SeriesForecaster

draw, t = np.random.default_rng(0), np.arange(60)
months = pd.date_range("2021-01-01", periods=60, freq="MS")
shops = {f"shop {k}": 100 * k + t + 10 * np.sin(t * np.pi / 6) + draw.normal(0, 3, 60) for k in range(1, 6)}
df = pd.concat(pd.DataFrame({"unique_id": name, "ds": months, "y": y}) for name, y in shops.items())

held = df[df.ds >= "2025-07-01"]  # half a year held back
found = SeriesForecaster().fit(df[df.ds < "2025-07-01"]).predict(h=6, level=[80])
both = held.merge(found, on=["unique_id", "ds"])
inside = both.y.between(both["attangent-lo-80"], both["attangent-hi-80"]).mean()
print(found.head(3).to_string(index=False))
error = (both.y - both.attangent).abs().mean()
print(f"mean error {error:.1f}; {inside:.0%} of the values inside the 80 % intervals")
