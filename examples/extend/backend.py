"""A backend of your own, compared with the one that is built in."""

import torch

from attangent.attention import PrefixState, ntk_attention
from attangent.attention.features import Elu


def plain_backend(q, k, v, state):
    """Materialise the weights: fine for short texts, and easy to check."""
    weights = (q @ k.mT / q.shape[-1] ** 0.5).exp()
    phi = state.features(q)
    top = weights @ v + phi @ state.Z
    return top / (weights.sum(-1, keepdim=True) + phi @ state.k.unsqueeze(-1))


def main() -> None:
    q, k, v = torch.randn(3, 1, 2, 5, 8, dtype=torch.float64)
    Z = torch.randn(2, 8, 8).double()
    masses = torch.rand(2, 8).double()
    state = PrefixState(Elu(8), Z, masses)
    difference = plain_backend(q, k, v, state) - ntk_attention(q, k, v, state)
    print(f"largest difference: {difference.abs().max():.0e}")


if __name__ == "__main__":
    main()
