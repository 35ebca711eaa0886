"""A feature map of your own in attention with a prefix, with its gradient checked against autograd."""

import torch

from attangent.attention import PrefixState, ntk_attention
from attangent.attention.features import FeatureMap


class Squares(FeatureMap):
    """phi(x) = 1 + x^2 / sqrt d, entry by entry."""

    name = "squares"

    def __init__(self, dim: int):
        super().__init__(dim, size=dim)

    def forward(self, x):
        return 1 + x.square() / self.dim**0.5

    def pullback(self, x, w, grad_w):
        return 2 * x * grad_w / self.dim**0.5, ()  # no trainable weights


def main() -> None:
    q, k, v = torch.randn(3, 1, 2, 6, 8).unbind()
    keys, values = torch.randn(2, 2, 100, 8).unbind()
    state = PrefixState.from_prefix(Squares(8), keys, values)
    print("attention with a prefix of 100 tokens:", tuple(ntk_attention(q, k, v, state, causal=True).shape))

    x = torch.randn(5, 8, requires_grad=True)
    weight = torch.randn(5, 8)
    phi = Squares(8)
    (expected,) = torch.autograd.grad((phi(x) * weight).sum(), x)
    gradient, _ = phi.pullback(x, phi(x), weight)
    print("gradient is that of autograd:", torch.allclose(gradient, expected))


if __name__ == "__main__":
    main()
