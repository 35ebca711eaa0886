"""Fitted forecasters and data sets."""

from collections.abc import Callable
from typing import Any

import pandas as pd

from drill.instances.tables import panel, wave


def forecaster(name: str) -> Callable[[], Any]:
    def build() -> Any:
        from attangent import forecast

        model = getattr(forecast, name)(24, 3)
        if hasattr(model, "training"):
            model.training = forecast.Training(epochs=1, batches=2)
        if hasattr(model, "size"):
            model.size = forecast.Encoder(8, 2, 1)
        return model.fit(wave())

    return build


def dataset() -> Any:
    from attangent.forecast import from_frame

    return from_frame(pd.DataFrame({"a": wave(400), "b": wave(400)[::-1]}), "waves")


def _series_forecaster() -> Any:
    from attangent.forecast import SeriesForecaster

    return SeriesForecaster(model="persistence").fit(panel())


def _ssm() -> Any:
    from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM

    return ResidualSSM(3)


def _attention_model() -> Any:
    from attangent.papers.p5_forecasting.theory.attention_model import AttentionModel

    return AttentionModel(3, 4)


def _outlook() -> Any:
    from attangent.forecast import forecast_frame

    return forecast_frame(pd.DataFrame({"a": wave(60)}), ["a"], 3, model="persistence")[0]


INSTANCES: dict[str, Callable[[], Any]] = {
    **{
        n: forecaster(n)
        for n in (
            *("Persistence", "SeasonalNaive", "LinearForecaster", "DLinear", "NLinear", "RLinear"),
            *("PatchTST", "VanillaTransformer", "InvertedTransformer", "Autoformer", "Informer"),
        )
    },
    "Forecaster": forecaster("Persistence"),
    "Dataset": dataset,
    "SeriesForecaster": _series_forecaster,
    "ResidualSSM": _ssm,
    "AttentionModel": _attention_model,
    "Outlook": _outlook,
}
