"""The softmax vectors of the heads, and the gradients through them against autograd."""

import torch

from attangent._core.random import generator
from attangent.icl import Dictionary
from attangent.papers.p4_in_context.one_layer.heads import gradient, mixture, softmax_vectors

DICTIONARY = Dictionary.random(K=7, d=5, m=4, N=3, tau=0.2)


def test_vectors_are_the_softmax_over_the_prompt_head_by_head():
    Q = torch.randn(2, 5, 5, generator=generator(0, "Q"), dtype=torch.float64)
    S = softmax_vectors(DICTIONARY, Q)
    assert S.shape == (2, 3, 7)
    for h in range(2):
        for k, token in enumerate(DICTIONARY.tokens):
            expected = torch.softmax(DICTIONARY.tokens[:3] @ Q[h] @ token, dim=0)
            torch.testing.assert_close(S[h, :, k], expected)


def test_gradients_of_a_linear_function_of_the_mixture_equal_autograd():
    rng = generator(1, "heads")
    Q = torch.randn(2, 5, 5, generator=rng, dtype=torch.float64).requires_grad_()
    w = torch.randn(2, 7, generator=rng, dtype=torch.float64).requires_grad_()
    G = torch.randn(3, 7, generator=rng, dtype=torch.float64)
    S = softmax_vectors(DICTIONARY, Q)
    expected = torch.autograd.grad((G * mixture(S, w)).sum() / 7, (Q, w))
    found = gradient(DICTIONARY, S.detach(), w.detach(), G)
    for got, wanted in zip(found, expected, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-12, atol=1e-14)
