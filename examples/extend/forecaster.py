"""A forecaster of your own: run on one series and on many, and combined with the others by `auto`."""

import numpy as np

from attangent.data import sample
from attangent.forecast import SeriesForecaster
from attangent.forecast.data.panel import Panel
from attangent.forecast.models import MODELS
from attangent.forecast.models.base import PanelModel


class Drift(PanelModel):
    """The last value, plus the mean step of the series."""

    families = ("drift",)

    def forecast(self, panel, horizon, earlier):
        last = panel.values[:, -1:]  # series end together; shorter ones begin with NaN
        first = panel.values[np.arange(len(panel)), -panel.lengths][:, None]
        step = (last - first) / np.maximum(panel.lengths - 1, 1)[:, None]
        return {"drift": last + step * np.arange(1, horizon + 1)}


def main() -> None:
    line = 3.0 * np.arange(50)
    one = Drift().forecast(Panel.of([line[:46]], 1), 4, {})["drift"]
    print("one series:", one[0], "expected", line[46:])

    MODELS.append(Drift())
    months = sample("employment")
    many = SeriesForecaster("drift").fit(months).outlook(h=12, level=[80])
    print(f"{len(many.models)} series by {set(many.models)}, {len(many.frame)} rows")
    auto = SeriesForecaster().fit(months).outlook(h=12)
    for name in ("drift", "combination"):
        print(f"in auto, MASE of {name} on the past: {auto.errors[name]:.2f}")
    MODELS.pop()


if __name__ == "__main__":
    main()
