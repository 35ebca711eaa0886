"""Attention in many dimensions (P5 Section 7.1): its gradient in the query-key matrix, printed and true."""

import torch
from torch import Tensor


def attention(X: Tensor, W: Tensor, V: Tensor) -> Tensor:
    """S X V with S = softmax(X W X') by rows; X (L, d), W (d, d), V (d, d)."""
    return torch.softmax(X @ W @ X.T, dim=1) @ X @ V


def printed_gradient(X: Tensor, W: Tensor, V: Tensor, G: Tensor) -> Tensor:
    """X'(S * (G V'X' - (Attn * G) 1)) X for the upstream gradient G (L, d)."""
    S = torch.softmax(X @ W @ X.T, dim=1)
    values = X @ V
    rows = ((S @ values) * G).sum(dim=1, keepdim=True)
    return X.T @ (S * (G @ values.T - rows)) @ X


def local_change(X: Tensor, W: Tensor, V: Tensor, G: Tensor, rate: float) -> Tensor:
    """Return the change (L,) of each diagonal score (X W X')_ii after one step of descent in W."""
    step = -rate * X @ printed_gradient(X, W, V, G) @ X.T
    return step.diagonal()
