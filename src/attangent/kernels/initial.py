"""Initial weights of the two-layer networks (P2 Definition 3.7)."""

from typing import Literal, get_args

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent._core.memory import check_memory
from attangent._core.random import generator

Init = Literal["symmetric", "independent"]


def draw_weights(
    d_in: int, d_out: int, m: int, sigma: float, init: Init, seed: int, dtype: torch.dtype
) -> tuple[Tensor, Tensor]:
    """Hidden weights W (d_in, m), normal with deviation sigma, and signs a (d_out, m).

    `symmetric` draws m/2 neurons and adds to each a twin with the same w and the opposite a, so that the
    output is zero at the start; `independent` draws all m.
    """
    if init not in get_args(Init):
        raise AttangentError(f"init is {init!r}, expected one of {', '.join(get_args(Init))}")
    if init == "symmetric" and m % 2:
        raise AttangentError(f"m is {m}, expected an even number: symmetric neurons come in pairs")
    check_memory("the weights", rows=d_in + d_out, m=m)
    drawn = m // 2 if init == "symmetric" else m
    rng = generator(seed, "weights")
    W = sigma * torch.randn(d_in, drawn, generator=rng, dtype=torch.float64)
    a = 2.0 * torch.randint(0, 2, (d_out, drawn), generator=rng).double() - 1.0
    if init == "symmetric":
        W = W.repeat_interleave(2, dim=1)
        a = torch.stack([a, -a], dim=2).reshape(d_out, m)
    return W.to(dtype), a.to(dtype)
