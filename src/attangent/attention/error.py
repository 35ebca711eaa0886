"""How far a state is from the prefix it stands for."""

from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._errors import AttangentError
from attangent.attention._inputs import check_prefix, check_scale
from attangent.attention.portable import attend_in_chunks, merge_prefix
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
    keys, values = check_prefix("keys", keys), check_prefix("values", values)
    queries = check_prefix("queries", queries, heads=keys.shape[0], columns=keys.shape[2])
    if (token_keys is None) != (token_values is None):
        raise AttangentError("token_keys and token_values belong together, expected both or neither")
    local_k = keys[:, :0] if token_keys is None else check_prefix("token_keys", token_keys, len(keys))
    local_v = values[:, :0] if token_values is None else check_prefix("token_values", token_values, len(keys))
    with torch.no_grad():
        scale = check_scale(scale, queries.shape[-1])
        whole = torch.cat([keys, local_k], dim=1), torch.cat([values, local_v], dim=1)
        exact, _ = attend_in_chunks(queries, *whole, scale)
        output, lse = attend_in_chunks(queries, local_k, local_v, scale)
        with_state = merge_prefix(queries[None], output[None], lse[None], state, scale)[0]
    gap = (with_state - exact).abs()
    return PrefixError(gap.max().item(), gap.mean().item())
