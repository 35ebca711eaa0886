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

__all__ = [
    "AttentionModel",
    "Autoformer",
    "DLinear",
    "Encoder",
    "Informer",
    "InvertedTransformer",
    "NLinear",
    "PatchTST",
    "RLinear",
    "Remedies",
    "ResidualSSM",
    "Training",
    "VanillaTransformer",
    "train_attention",
]

_HOMES = {
    "AttentionModel": "theory.attention_model",
    "Autoformer": "deep.encoder_decoders",
    "DLinear": "deep.linear_sgd",
    "Encoder": "deep.attention_forecasters",
    "Informer": "deep.encoder_decoders",
    "InvertedTransformer": "deep.attention_forecasters",
    "NLinear": "deep.linear_sgd",
    "PatchTST": "deep.attention_forecasters",
    "RLinear": "deep.linear_sgd",
    "Remedies": "theory.attention_model",
    "ResidualSSM": "theory.ssm",
    "Training": "deep.training",
    "VanillaTransformer": "deep.attention_forecasters",
    "train_attention": "theory.attention_model",
}
__getattr__, __dir__ = lazy_names(__name__, _HOMES)
