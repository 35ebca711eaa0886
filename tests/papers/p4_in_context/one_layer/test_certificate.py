"""The constants of Theorems 1 and 2 against their printed formulas."""

import math

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.icl import Dictionary
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.one_layer.certificate import InitialisationWarning, _sum
from tests.icl.examples import some_model


def start(seed=0):
    dictionary = Dictionary.random(K=6, d=8, m=4, N=4, tau=0.1, seed=seed, representation="independent")
    return OneLayerAttention(dictionary, heads=16, logit_std=3.0, seed=seed)


def norm(matrix):
    return torch.linalg.matrix_norm(matrix, 2).item()


@pytest.mark.parametrize("seed", range(3))
def test_constants_as_printed(seed):
    """Eq. 14-17, 44 and 61, typed from the paper with plain numbers."""
    model = start(seed)
    D = model.dictionary
    c = model.certificate()
    K, N, H, Z = 6, 4, 16, norm(D.Z_bar)
    f = D.Z_bar.norm(dim=0).max().item()
    zeta, gap, A = model.health().zeta, model.gap(), norm(model.limit.A)
    root2 = math.sqrt(2)
    gamma = zeta ** (-5 / 4) * math.sqrt(128 * root2 / (root2 - 1) * Z**2 * math.sqrt(H) * f * K**1.5 * gap)
    alpha = math.sqrt(2 * K) * 4 * Z / (gamma * zeta) * math.sqrt(gap)
    cross = norm(D.Z.T @ D.features.T) / (4 * 0.1)
    bracket = 8 * root2 * H * math.sqrt(K) * Z**2 / zeta * math.sqrt(gap) + 1 + cross
    L17 = bracket**2 * Z**4 * (8 / K * gamma**2 + 4096 / (gamma * zeta**2) * K**2 * N * gap)
    L17 += 2 * H**2 * Z**4 * (gamma**4 / K**2 + 16384 / (gamma * zeta**4) * K**3 * Z**2 * gap**2)
    first = 2 * ((2 * gamma * Z**2 * (2 * gamma * H * alpha + A)) ** 2 / K + gamma**4 / K**2 * H**2 * Z**4)
    last = max(1, 4 * K * alpha**2) * ((alpha * gamma * H) ** 2 + 4 * N * (alpha * gamma * H + A) ** 2)
    assert c.zeta == pytest.approx(zeta)
    assert c.log10_gamma == pytest.approx(math.log10(gamma))
    assert c.log10_alpha == pytest.approx(math.log10(alpha))
    assert c.log10_L == pytest.approx(math.log10(L17) / 2)
    assert c.log10_L_61 == pytest.approx(math.log10(first + 8 * gamma * f * Z * last) / 2)
    corrected = first + 16 * (gamma * f * Z) ** 2 / K * last
    assert c.log10_L_corrected == pytest.approx(math.log10(corrected) / 2)
    assert c.rate_Q == pytest.approx(L17**-0.5)
    assert c.rate_w == pytest.approx(gamma**2 * L17**-0.5)
    assert c.contraction == pytest.approx(c.rate_w * zeta / (2 * K))


def test_steps_of_equation_21():
    model = start()
    D = model.dictionary
    c = model.certificate(eps=1e-3, delta=0.1, bound=2.0)
    log = math.log(10)
    size = norm(D.Z) + math.sqrt(0.1 * (2 * math.sqrt(4 * log) + 2 * log + 4))
    wanted = math.log(4 * c.gap * size**2 / (0.4 * 1e-3)) / math.log(1 / (1 - c.contraction))
    assert c.steps == pytest.approx(wanted, rel=1e-6)


def test_the_guarantee_is_kept_on_the_way():
    model = start(1)
    c = model.certificate()
    gaps = model.fit("gd", steps=300, rate_Q=c.rate_Q, rate_w=c.rate_w).gaps
    bound = gaps[0] * (1 - c.contraction) ** torch.arange(301)
    assert (gaps <= bound * (1 + 1e-12)).all()


def test_constants_that_overflow_stay_finite_as_logarithms():
    dictionary = Dictionary.random(K=6, d=8, m=4, N=4, tau=0.1, representation="independent")
    with pytest.warns(UserWarning, match="numerically dependent"):
        model = OneLayerAttention(dictionary, heads=8, logit_std=1e-14)
    certificate = model.certificate()
    assert certificate.log10_L > 20
    assert certificate.log10_steps > 10


def test_a_few_heads_have_no_guarantee():
    dictionary = Dictionary.random(K=6, d=8, m=4, N=4, tau=0.1, representation="independent")
    certificate = OneLayerAttention(dictionary, heads=2).certificate()
    assert certificate.zeta == 0
    assert certificate.rate_Q == certificate.rate_w == certificate.contraction == 0
    assert certificate.steps == math.inf


def test_sum_of_logarithms():
    assert _sum(2, 3) == pytest.approx(math.log10(1100))
    assert _sum(400, 400) == pytest.approx(400 + math.log10(2))
    assert _sum(-math.inf, -math.inf) == -math.inf


def test_targets_are_checked():
    with pytest.raises(AttangentError, match="eps is 0"):
        start().certificate(eps=0)


def test_saturation_is_named_with_the_way_out():
    dictionary = Dictionary.random(K=12, d=40, m=4, N=6, tau=0.1, tokens="gaussian")
    with pytest.warns(InitialisationWarning, match="smaller logit_std"):
        model = OneLayerAttention(dictionary, heads=6, logit_std=40.0)
    assert model.health().saturated
    assert not OneLayerAttention(dictionary, heads=24).health().complaints


def test_dependent_heads_are_named():
    dictionary = Dictionary.random(K=12, d=6, m=4, N=6, tau=0.1)
    with pytest.warns(InitialisationWarning, match="numerically dependent"):
        alike = OneLayerAttention(dictionary, heads=6, logit_std=1e-8)
    assert alike.health().zeta < 1e-12 < OneLayerAttention(dictionary, heads=6).health().zeta
    assert any("numerically dependent" in complaint for complaint in alike.health().complaints)


def test_zeta_is_the_least_eigenvalue():
    model = some_model(heads=9)
    values = []
    for k in range(7):
        B = model.dictionary.Z_bar @ model.attention()[:, :, k].T
        values.append(torch.linalg.eigvalsh(B @ B.T)[0].item())
    assert model.health().zeta == pytest.approx(min(values), rel=1e-6)
    assert some_model(heads=3).health().zeta == 0
