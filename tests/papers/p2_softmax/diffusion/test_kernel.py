"""The kernel predictor against Eq. (25) step by step, and against what it stands for."""

import math

import pytest
import torch

from attangent.kernels import vectorise
from attangent.papers.p2_softmax.diffusion import KernelScore, label_loss
from attangent.papers.p2_softmax.diffusion.networks import curvature
from attangent.papers.p2_softmax.networks import softmax_limit
from tests.papers.p2_softmax.diffusion.examples import DATA, PROCESS, TARGET, TEST, VALIDATION, softmax


def by_steps(kernel, test_kernel, y, per_step, steps):
    """gamma <- gamma - eta (m H gamma - y), one step at a time (Eq. 25)."""
    gamma = torch.zeros_like(y)
    for _ in range(steps):
        gamma = gamma - per_step * (kernel @ gamma - y)
    return test_kernel @ gamma


def test_network_kernel_against_equation_25():
    model = KernelScore(PROCESS, 64, steps=30, rate=1.2, seed=3).fit(DATA)
    network = softmax().start(2)
    X, Z = (model.inputs(PROCESS, data.t, data.x) for data in (DATA, TEST))
    eta = 1.2 / curvature(network, X)
    H, K = 64 * network.kernel(X), 64 * network.kernel(Z, X)
    reference = by_steps(H, K, vectorise(DATA.y), eta, 30).reshape(2, -1).T
    torch.testing.assert_close(model.posterior_mean(TEST.t, TEST.x), reference, rtol=1e-8, atol=1e-9)


def test_wide_kernel_against_equation_25():
    model = KernelScore(PROCESS, math.inf, steps=30, rate=1.2).fit(DATA)
    X, Z = (model.inputs(PROCESS, data.t, data.x) for data in (DATA, TEST))
    K = softmax_limit(X)
    eta = 1.2 / torch.linalg.eigvalsh(K)[-1].item()
    reference = by_steps(K, softmax_limit(Z, X), DATA.y, eta, 30)
    torch.testing.assert_close(model.posterior_mean(TEST.t, TEST.x), reference, rtol=1e-4, atol=1e-6)


def test_wide_network_comes_near_its_kernel_and_the_limit():
    network = softmax(m=2048, steps=40).fit(DATA)
    kernel = KernelScore.like(network, 1.5, 40).fit(DATA)
    limit = KernelScore(PROCESS, math.inf, steps=40, rate=1.5).fit(DATA)
    trained, own, wide = (model.posterior_mean(TEST.t, TEST.x) for model in (network, kernel, limit))
    assert (trained - own).norm() < 1e-3 * trained.norm()
    assert (trained - wide).norm() < 0.1 * trained.norm()


@pytest.mark.parametrize("m", [64, math.inf])
def test_other_labels_need_no_other_decomposition(m):
    model = KernelScore(PROCESS, m, steps=50).fit(DATA)
    clean = DATA.clean(TARGET, PROCESS)
    again = KernelScore(PROCESS, m, steps=50).fit(clean)
    found = model.relabelled(clean.y)
    torch.testing.assert_close(
        found.posterior_mean(TEST.t, TEST.x), again.posterior_mean(TEST.t, TEST.x), rtol=1e-9, atol=1e-10
    )


@pytest.mark.parametrize("m", [64, math.inf])
def test_squared_norm_is_that_of_the_hilbert_space(m):
    """|F|^2 = gamma' K gamma, and it grows with the steps."""
    model = KernelScore(PROCESS, m, steps=20).fit(DATA)
    X = model.inputs(PROCESS, DATA.t, DATA.x)
    K = softmax_limit(X, d_out=2) if m == math.inf else softmax(seed=0).start(2).kernel(X)
    F = vectorise(model.posterior_mean(DATA.t, DATA.x))  # K gamma at the training points
    gamma = torch.linalg.lstsq(K, F[:, None], driver="gelsd", rcond=1e-12).solution[:, 0]
    assert model.squared_norm == pytest.approx((gamma @ F).item(), rel=1e-4)
    norms = [model.at(step).squared_norm for step in (0, 1, 10, 100, 1000)]
    assert norms == sorted(norms)
    assert norms[0] == 0


def test_validation_chooses_the_step():
    model = KernelScore(PROCESS, math.inf, steps=10**8).fit(DATA, VALIDATION)
    assert 0 < model.step < 10**6
    chosen, last = label_loss(model, VALIDATION), label_loss(model.at(10**8), VALIDATION)
    assert chosen == pytest.approx(min(model.validation.values()))
    assert last > 1.5 * chosen
