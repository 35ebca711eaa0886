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
    "AttentionModel": "theory.attention_model",
    "Autoformer": "deep.attention_forecasters",
    "DLinear": "deep.training",
    "Dataset": "windows.protocol",
    "Encoder": "deep.attention_forecasters",
    "Forecaster": "windows.forecaster",
    "Informer": "deep.attention_forecasters",
    "InvertedTransformer": "deep.attention_forecasters",
    "LinearForecaster": "windows.forecaster",
    "NLinear": "deep.training",
    "PatchTST": "deep.attention_forecasters",
    "Persistence": "windows.forecaster",
    "RLinear": "deep.training",
    "Remedies": "theory.attention_model",
    "ResidualSSM": "theory.ssm",
    "SeasonalNaive": "windows.forecaster",
    "Training": "deep.training",
    "VanillaTransformer": "deep.attention_forecasters",
    "compare_windows": "windows.protocol",
    "errors_by_step": "windows.protocol",
    "evaluate_windows": "windows.protocol",
    "find_period": "windows.forecaster",
    "from_frame": "windows.protocol",
    "load_csv": "windows.protocol",
    "train_attention": "theory.attention_model",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
