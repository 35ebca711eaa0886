"""The softmax vectors of the heads, their mixture, and the gradients through them (Eq. 28, 35, Lemma 1)."""

import math

import torch
from torch import Tensor

from attangent.icl.dictionary import Dictionary


def logit_scale(dictionary: Dictionary) -> float:
    """Return the standard deviation of a logit v_n'Q v_k if the entries of Q have variance 1."""
    squares = dictionary.tokens.square().sum(dim=1)
    return math.sqrt(squares[: dictionary.N].mean().item() * squares.mean().item())


def softmax_vectors(dictionary: Dictionary, Q: Tensor) -> Tensor:
    """S (H, N, K) = softmax over n of V'Q_h X."""
    tokens = dictionary.tokens
    return torch.softmax(tokens[: dictionary.N] @ Q @ tokens.T, dim=1)


def mixture(S: Tensor, w: Tensor) -> Tensor:
    """(N, K): sum over h of w_hk s^h_k."""
    return (S * w[:, None, :]).sum(dim=0)


def logit_gradient(S: Tensor, w: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients in the logits (H, N, K) and in w (H, K); G / K is the gradient in Ahat.

    dw_hk = <s^h_k, G_k> / K and dlogits = S (G - <S, G>) w / K (from Lemma 1).
    """
    K = S.shape[2]
    SG = S * G
    inner = SG.sum(dim=1)
    logits = (SG - S * inner[:, None, :]).mul_(w[:, None, :] / K)
    return logits, inner / K


def gradient(dictionary: Dictionary, S: Tensor, w: Tensor, G: Tensor) -> tuple[Tensor, Tensor]:
    """dQ_h = V dlogits_h X' and dw."""
    logits, dw = logit_gradient(S, w, G)
    tokens = dictionary.tokens
    return tokens[: dictionary.N].T @ (logits @ tokens), dw
