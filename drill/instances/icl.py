"""Dictionaries, models that learn in context, comparisons."""

from collections.abc import Callable
from typing import Any

import numpy as np


def dictionary() -> Any:
    from attangent.icl import Dictionary

    return Dictionary.random(K=5, d=3, m=2, N=4, tau=0.1)


def _one_layer() -> Any:
    from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention

    return OneLayerAttention(dictionary(), heads=4)


def _transformer() -> Any:
    from attangent.papers.p4_in_context.transformer import InContextTransformer, TransformerConfig

    return InContextTransformer(3, 2, TransformerConfig(1, 8, 8, 2))


def _trainer() -> Any:
    from attangent.papers.p4_in_context.transformer import TransformerTrainer

    return TransformerTrainer(steps=2, batch=4, prompts=8, record_every=1)


def _ridge() -> Any:
    from attangent.icl import InContextRidge

    return InContextRidge().fit(np.eye(4), np.arange(4.0))


def _comparison() -> Any:
    from attangent.icl import compare_to_ridge

    return compare_to_ridge(lambda tokens, labels, queries: labels[:, :1], dictionary(), prompts=20)


INSTANCES: dict[str, Callable[[], Any]] = {
    "Dictionary": dictionary,
    "OneLayerAttention": _one_layer,
    "InContextTransformer": _transformer,
    "TransformerTrainer": _trainer,
    "InContextRidge": _ridge,
    "Comparison": _comparison,
}
