"""P5: attention as a forecaster, its residual state-space theory, and deep forecasters to compare with."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.papers.p5_forecasting.deep.attention_forecasters import (
        Encoder,
        InvertedTransformer,
        PatchTST,
        VanillaTransformer,
    )
    from attangent.papers.p5_forecasting.deep.encoder_decoders import Autoformer, Informer
    from attangent.papers.p5_forecasting.deep.linear_sgd import DLinear, NLinear, RLinear
    from attangent.papers.p5_forecasting.deep.training import Training
    from attangent.papers.p5_forecasting.theory.attention_model import (
        AttentionModel,
        Remedies,
        train_attention,
    )
    from attangent.papers.p5_forecasting.theory.ssm import ResidualSSM
    from attangent.papers.p5_forecasting.windows.closed_form import (
        LinearForecaster,
        Persistence,
        SeasonalNaive,
        find_period,
    )
    from attangent.papers.p5_forecasting.windows.forecaster import Forecaster
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
    "Autoformer": "deep.encoder_decoders",
    "DLinear": "deep.linear_sgd",
    "Dataset": "windows.protocol",
    "Encoder": "deep.attention_forecasters",
    "Forecaster": "windows.forecaster",
    "Informer": "deep.encoder_decoders",
    "InvertedTransformer": "deep.attention_forecasters",
    "LinearForecaster": "windows.closed_form",
    "NLinear": "deep.linear_sgd",
    "PatchTST": "deep.attention_forecasters",
    "Persistence": "windows.closed_form",
    "RLinear": "deep.linear_sgd",
    "Remedies": "theory.attention_model",
    "ResidualSSM": "theory.ssm",
    "SeasonalNaive": "windows.closed_form",
    "Training": "deep.training",
    "VanillaTransformer": "deep.attention_forecasters",
    "compare_windows": "windows.protocol",
    "errors_by_step": "windows.protocol",
    "evaluate_windows": "windows.protocol",
    "find_period": "windows.closed_form",
    "from_frame": "windows.protocol",
    "load_csv": "windows.protocol",
    "train_attention": "theory.attention_model",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
