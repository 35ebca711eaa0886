"""How far a state is from the prefix it stands for."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.attention._inputs import check_prefix, check_scale
from attangent.attention.backends.portable import attend_in_chunks, merge_prefix
from attangent.attention.prefix import Prefix


@dataclass(frozen=True)
class PrefixError:
    """Entrywise distance of two outputs: the largest and the mean absolute difference."""

    sup: float
    mean: float


def prefix_error(
    state: Prefix,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    *,
    token_keys: Tensor | None = None,
    token_values: Tensor | None = None,
    scale: float | None = None,
) -> PrefixError:
    """The error of attention with `state` against attention with the prefix keys and values (heads, m, d).

    `queries` are (heads, n, d). With `token_keys` and `token_values` (heads, L, d) the prefix stands in front
    of these tokens; without them it is all that the queries see.
    """
    keys, values = _pair("keys", keys, "values", values)
    queries = check_prefix("queries", queries, heads=keys.shape[0], columns=keys.shape[2])
    local_k, local_v = keys[:, :0], values[:, :0]
    if (token_keys is None) != (token_values is None):
        raise AttangentError("token_keys and token_values belong together, expected both or neither")
    if token_keys is not None:
        local_k, local_v = _pair("token_keys", token_keys, "token_values", token_values)
        check_prefix("token_keys", local_k, *keys.shape[::2])
        check_prefix("token_values", local_v, *values.shape[::2])
    with torch.no_grad():
        scale = check_scale(scale, queries.shape[-1])
        whole = torch.cat([keys, local_k], dim=1), torch.cat([values, local_v], dim=1)
        exact, _ = attend_in_chunks(queries, *whole, scale)
        output, lse = attend_in_chunks(queries, local_k, local_v, scale)
        with_state = merge_prefix(queries[None], output[None], lse[None], state, scale)[0]
    gap = (with_state - exact).abs()
    return PrefixError(gap.max().item(), gap.mean().item())


def _pair(name: str, keys: Any, other: str, values: Any) -> tuple[Tensor, Tensor]:
    """Keys and values of as many heads and tokens."""
    keys, values = check_prefix(name, keys), check_prefix(other, values)
    if values.shape[:2] != keys.shape[:2]:
        raise AttangentError(
            f"{other} has shape {tuple(values.shape)}, expected {tuple(keys.shape[:2])} and a size, as {name}"
        )
    return keys, values
