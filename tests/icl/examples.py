"""A small model that the tests of the room share."""

import warnings

import torch

from attangent._core.random import generator
from attangent.icl import Dictionary
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.one_layer.certificate import InitialisationWarning

SIZES = {"K": 12, "d": 8, "m": 4, "N": 6, "tau": 0.05}


def model(heads=24, seed=0, **changes):
    return OneLayerAttention(
        Dictionary.random(**(SIZES | changes), seed=seed, representation="independent"), heads, seed=seed
    )


def some_model(d=5, m=4, N=4, tau=0.2, seed=0, heads=3):
    dictionary = Dictionary.random(K=7, d=d, m=m, N=N, tau=tau, seed=seed, representation="independent")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", InitialisationWarning)
        model = OneLayerAttention(dictionary, heads, seed=seed)
    rng = generator(seed, "test weights")
    model.w = torch.randn(heads, 7, generator=rng, dtype=torch.float64)
    return model
