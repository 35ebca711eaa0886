"""P4: one-layer attention that learns ridge regression in context, and a deep transformer."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
    from attangent.papers.p4_in_context.one_layer.certificate import (
        Certificate,
        Health,
        InitialisationWarning,
    )
    from attangent.papers.p4_in_context.one_layer.training import TrainingRun
    from attangent.papers.p4_in_context.transformer import (
        InContextTransformer,
        TransformerConfig,
        TransformerTrainer,
    )

__all__ = [
    "Certificate",
    "Health",
    "InContextTransformer",
    "InitialisationWarning",
    "OneLayerAttention",
    "TrainingRun",
    "TransformerConfig",
    "TransformerTrainer",
]

_HOMES = {
    "one_layer.attention": ("OneLayerAttention",),
    "one_layer.certificate": ("Certificate", "Health", "InitialisationWarning"),
    "one_layer.training": ("TrainingRun",),
    "transformer": ("InContextTransformer", "TransformerConfig", "TransformerTrainer"),
}
__getattr__, __dir__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names})
