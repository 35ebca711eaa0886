"""P5: attention as a forecaster, its residual state-space theory, and deep forecasters to compare with."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.papers.p5_forecasting.deep.attention_forecasters import (
        Autoformer,
        Encoder,
        Informer,
        InvertedTransformer,
        PatchTST,
        VanillaTransformer,
    )
    from attangent.papers.p5_forecasting.deep.training import DLinear, NLinear, RLinear, Training
    from attangent.papers.p5_forecasting.theory.attention_model import (
        AttentionModel,
        Remedies,
        train_attention,
    )
    from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM
    from attangent.papers.p5_forecasting.windows.forecaster import (
        Forecaster,
        LinearForecaster,
        Persistence,
        SeasonalNaive,
        find_period,
    )
    from attangent.papers.p5_forecasting.windows.protocol import (
        Dataset,
        compare_windows,
        errors_by_step,
        evaluate_windows,
        from_frame,
        load_csv,
    )

__all__ = [
    "AttentionModel",
    "Autoformer",
    "DLinear",
    "Dataset",
    "Encoder",
    "Forecaster",
    "Informer",
    "InvertedTransformer",
    "LinearForecaster",
    "NLinear",
    "PatchTST",
    "Persistence",
    "RLinear",
    "Remedies",
    "ResidualSSM",
    "SeasonalNaive",
    "Training",
    "VanillaTransformer",
    "compare_windows",
    "errors_by_step",
    "evaluate_windows",
    "find_period",
    "from_frame",
    "load_csv",
    "train_attention",
]

_HOMES = {
    "deep.attention_forecasters": (
        "Autoformer",
        "Encoder",
        "Informer",
        "InvertedTransformer",
        "PatchTST",
        "VanillaTransformer",
    ),
    "deep.training": ("DLinear", "NLinear", "RLinear", "Training"),
    "theory.attention_model": ("AttentionModel", "Remedies", "train_attention"),
    "theory.ssm": ("ResidualSSM",),
    "windows.forecaster": ("Forecaster", "LinearForecaster", "Persistence", "SeasonalNaive", "find_period"),
    "windows.protocol": (
        "Dataset",
        "compare_windows",
        "errors_by_step",
        "evaluate_windows",
        "from_frame",
        "load_csv",
    ),
}
__getattr__, __dir__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names})
