"""The rival with the map of P1's authors: least squares with positive masses."""

import torch

from attangent.adapters.config import NTKConfig
from attangent.attention import PrefixState
from attangent.attention.features import Elu
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.problem import LayerProblem, thinned_rows


class EluMethod(CompressionMethod):
    """As many features as a head has dimensions."""

    name = "elu"
    distillable = False
    sized = False

    def layer_state(self, layer: LayerProblem, size: int) -> PrefixState:
        queries = layer.rows(layer.call.q)
        tokens = layer.rows(layer.lse.unsqueeze(-1)).squeeze(-1)
        keys, values = (torch.stack(list(part)).float() for part in (layer.keys, layer.values))
        kept = thinned_rows(queries.shape[1], keys.shape[1])
        return PrefixState.fit(
            Elu(keys.shape[-1]),
            keys,
            values,
            queries[:, kept].float(),
            token_logsumexp=tokens[:, kept],
            scale=layer.call.scale,
        )

    def config(self, size: int, position_offset: int) -> NTKConfig:
        return NTKConfig(features="elu", units="raw", per="kv", position_offset=position_offset)
