"""The rival with the map of P1's authors: least squares with positive masses."""

from attangent.adapters.config import NTKConfig
from attangent.attention import PrefixState
from attangent.attention.features import Elu
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.problem import LayerProblem


class EluMethod(CompressionMethod):
    """As many features as a head has dimensions."""

    name = "elu"
    distillable = False
    sized = False

    def layer_state(self, layer: LayerProblem, size: int) -> PrefixState:
        queries = layer.rows(layer.call.q)
        tokens = layer.rows(layer.lse.unsqueeze(-1)).squeeze(-1)
        kept = layer.thinned(queries.shape[1])
        return PrefixState.fit(
            Elu(layer.keys.shape[-1]),
            layer.keys.float(),
            layer.values.float(),
            queries[:, kept].float(),
            token_logsumexp=tokens[:, kept],
            scale=layer.call.scale,
        )

    def config(self, size: int, position_offset: int) -> NTKConfig:
        return NTKConfig(features="elu", units="raw", per="kv", position_offset=position_offset)
