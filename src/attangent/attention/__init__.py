"""Softmax attention with a prefix: exact, and as NTK-Attention with a state of constant size."""

from attangent.attention.backends.torch.portable import merge_prefix
from attangent.attention.ntk import ntk_attention, prefix_attention
from attangent.attention.prefix import Prefix, RaggedTokens
from attangent.attention.ragged import RaggedState
from attangent.attention.state import PrefixError, PrefixState

__all__ = [
    "Prefix",
    "PrefixError",
    "PrefixState",
    "RaggedState",
    "RaggedTokens",
    "merge_prefix",
    "ntk_attention",
    "prefix_attention",
]
