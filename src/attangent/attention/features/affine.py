"""The form that compiled code knows: features that are one function of affine functions of the query."""

from typing import Literal, NamedTuple

from torch import Tensor

Kind = Literal["elu", "learned-elu", "learned-gelu", "exponential"]


class Affine(NamedTuple):
    """phi(x) = e^level [1, act(W x + b)] for the learned kinds, e^level exp(W x + b) for exponentials.

    W is (heads or 1, rows, d), b (heads or 1, rows), level (heads,), each in float32; None stands for 0. The
    kind `elu` has no weights: phi(x) = elu(x d^(-1/4)) + 1.
    """

    kind: Kind
    weight: Tensor | None = None
    bias: Tensor | None = None
    level: Tensor | None = None
