"""Section 6.3, Appendix J: risks on the sign-inconsistent task."""

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Settings, claim
from attangent.papers.common.sizes import by_size
from attangent.papers.p5_forecasting.claims import proofs, proofs_of_slips
from attangent.papers.p5_forecasting.claims.scalar_regression import asked, scalar_regression
from attangent.papers.p5_forecasting.theory.attention_model import AttentionModel, train_attention
from attangent.papers.p5_forecasting.theory.ssm import (
    ResidualSSM,
    descend_residual_linear,
    fit_residual_linear,
    residual_linear,
)

_TASK = {"d": 8, "sigma": 0.01, "n": 256, "test": 20_000}
_TRAINED = {"m": 16, "steps": 150, "rate": 0.05, "sigmas": [0.04, 0.02, 0.01, 0.005]}


def _risk(answer: Tensor, y: Tensor) -> float:
    return (answer - y).square().mean().item()


@claim(
    "P5/proposition-6.3-attention",
    plain="""The risk of trained attention on the sign-inconsistent task does not fall with the noise, as
        stated; measured outside the theorem's hypotheses.""",
    place="Section 6.3, Proposition 6.3, Part 1 (Proposition J.1)",
    title="Attention cannot reach the noise level out of distribution",
    quote="""Let all pre-conditions in Theorem 5.2 hold, there is no w(t) in R^m that satisfies R(f) <=
        O(sigma^2).""",
    quick={"d": 8, "delta": 0.05, "n": 64, "test": 10_000, **_TRAINED},
    full={"m": 24, "n": 96, "steps": 400},
    seconds=2.0,
    rests_on=("P5/theorem-5.2-asymmetry", "P5/theorem-5.3", "P5/claim-c.2"),
)
def attention_fails(settings: Settings, seed: int) -> Finding:
    """No hidden weights that training reaches give the attention model a risk of order sigma^2 on the
    sign-inconsistent task; P_1..P_(d-1) alone do not span P_(d+1).
    """
    sigmas = settings.sigmas
    least = sigmas[-1]
    risks = [_attention_risk(settings, sigma, seed) / sigma**2 for sigma in sigmas]
    baselines = ResidualSSM(settings.d, least).baseline_risks(True)
    P = ResidualSSM(settings.d, 0.0, seed).features()
    p = scalar_regression(settings | {"noise": least}, seed)
    rank = int(torch.linalg.matrix_rank(torch.cat((P[:-2], P[-1:]))))
    growth = "growth exponent in 1/sigma of risk / sigma^2"
    together = "rank of P_1..P_(d-1) and P_(d+1) together (J.1)"
    return Finding(
        hypotheses=asked(p, settings | {"noise": least}, part="risk"),
        conclusions=(
            Conclusion.of_trend(growth, ">", 0.0, [1 / sigma for sigma in sigmas], risks, part="risk"),
            Conclusion(together, ">=", settings.d, rank, part="span"),
        ),
        numbers={
            **by_size("risk / sigma^2 at sigma = {:g}", sigmas, risks),
            **{
                f"risk / sigma^2 of {name} at sigma = {least:g}": risk / least**2
                for name, risk in baselines.items()
            },
        },
        remark="Measured far outside the preconditions of Theorem 5.2. The risk does not fall with sigma, "
        "so that its ratio to sigma^2 grows like sigma^-2. Predicting zero beats trained attention here.",
    )


@claim(
    "P5/proposition-j.1-step",
    nature="proof step",
    plain="""The proof says that a sum of negative terms is positive, and concludes from a linear span
        about a softmax. The proposition itself is measured to hold.""",
    failure=Failure(
        cause="P5/proposition-j.1-step",
        consequence="Part 1 of Proposition 6.3 is not proved",
        first_size="one neuron with a_r = -1, one test window",
        root="a positive factor is given the sign of its weight",
    ),
    proof=proofs.proposition_j_1,
    ours=("for every neuron r, as printed",),
    place="Appendix J.1, proof of Proposition J.1, first display",
    title="The sum of signed attention weights is positive",
    quote="""sum_i a_r softmax_d(x_test,i,d w_r(t) x_test,i) > 0 where this step follows from w_r(t) < 0
        when a_r = -1""",
    quick={"d": 8, "test": 100, "sigma": 0.01, "weight": -0.5, "sign": -1.0},
)
def signed_attention(settings: Settings, seed: int) -> Finding:
    """For every neuron r, the sum over test windows of a_r softmax_d(x_d w_r x) is positive if w_r < 0 for
    a_r = -1.
    """
    ssm = ResidualSSM(settings.d, settings.sigma, seed)
    x, _ = ssm.sample_inconsistent(settings.test, generator(seed, "test"))
    shares = torch.softmax(settings.weight * x[:, -1:] * x, dim=1)[:, -1]
    total = settings.sign * shares.sum().item()
    return Finding(conclusions=(Conclusion("sum over windows of a_r softmax_d", ">", 0.0, total),))


def _attention_risk(settings: Settings, sigma: float, seed: int) -> float:
    ssm = ResidualSSM(settings.d, sigma, seed)
    x, y = ssm.sample(settings.n, generator(seed, "train"))
    model = AttentionModel(settings.d, settings.m, seed=seed)
    train_attention(model, x, y, settings.steps, settings.rate)
    x_new, y_new = ssm.sample_inconsistent(settings.test, generator(seed, "test"))
    with torch.no_grad():
        return _risk(model(x_new), y_new)


def _linear_risk(
    ssm: ResidualSSM, settings: Settings, seed: int, fit: Callable[[Tensor, Tensor], Tensor]
) -> float:
    """The risk on the sign-inconsistent task of a residual linear network fitted to the usual one."""
    w = fit(*ssm.sample(settings.n, generator(seed, "train")))
    x_new, y_new = ssm.sample_inconsistent(settings.test, generator(seed, "test"))
    return _risk(residual_linear(w, x_new), y_new)


@claim(
    "P5/proposition-6.3-linear",
    nature="misprint",
    plain="""The equation lacks -P_d in its sum, and w_d is not unique; the risk, which is the content, is
        as stated.""",
    failure=Failure(
        cause="P5/proposition-6.3-linear",
        consequence="P_k - P_d for P_k, as in the proof; the risk stands",
        first_size="d = 2",
        root="a term is left out of a sum",
    ),
    proof=proofs_of_slips.proposition_6_3,
    place="Section 6.3, Proposition 6.3, Part 2 (Proposition J.3)",
    title="The residual linear network reaches the noise level",
    quote="""There exists and exists only one w*_lin that satisfies sum_{k=1}^{d-1} w*_lin,k P_k = P_{d+1}
        - P_d.""",
    quick={**_TASK, "within": 0.05},
    full={"test": 400_000, "d": 32, "n": 2048},
    rests_on=("P5/claim-c.2",),
)
def linear_succeeds(settings: Settings, seed: int) -> Finding:
    """Exactly one w solves sum_(k<d) w_k P_k = P_(d+1) - P_d, by inverting P_x'P_x in the proof, and with it
    the residual linear network has a risk of order sigma^2 on the sign-inconsistent task.
    """
    ssm = ResidualSSM(settings.d, settings.sigma, seed)
    P = ssm.features()
    columns = (P[:-1] - P[-2]).T  # P_x of the proof, its last column zero
    least = torch.linalg.eigvalsh(columns.T @ columns)[0].item()
    background = P[:-2].T
    target = P[-1] - P[-2]
    unsolved = (background @ (torch.linalg.pinv(background) @ target) - target).norm().item()
    inverted = "least eigenvalue of P_x'P_x, which the proof inverts"
    risk = "risk by least squares / (2 sigma^2), the variance that the proof has"
    level = settings.sigma**2 * (1 + ssm.s2)
    fitted = _linear_risk(ssm, settings, seed, fit_residual_linear)
    return Finding(
        conclusions=(
            Conclusion(SOLVED, "<=", 1e-9, unsolved, part="equation"),
            Conclusion(inverted, ">=", 1e-9, least, part="uniqueness"),
            Conclusion(risk, "<=", 1 + settings.within, fitted / (2 * settings.sigma**2), part="risk"),
        ),
        numbers={
            "sigma": settings.sigma,
            "s^2": ssm.s2,
            "risk / sigma^2": fitted / settings.sigma**2,
            "risk / (sigma^2 (1 + s^2))": fitted / level,
        },
        remark="The equation lacks - P_d in its sum and has no solution as printed; P_x has a column of "
        "zeros, so that P_x'P_x has no inverse. The risk is as claimed.",
    )


@claim(
    "P5/proposition-6.3-linear-repaired",
    nature="misprint",
    plain="With P_k - P_d the weights are 1/(d(d-1)), and the risk is sigma^2 (1 + s^2).",
    sharp="sharp: the risk is exact",
    title="The residual linear network reaches the noise level",
    derivation="""f_lin(x) = sum_k w_k (x_k - x_d) + x_d. P_(d+1) - P_d = -P_d/d + sum_(k<d) P_k/(d(d-1)) =
        sum_(k<d) (P_k - P_d)/(d(d-1)), and the P_k - P_d for k < d are independent. On clean values f_lin
        is u_(d+1); the noise adds sigma^2 |c|^2 with c the weights of Property 3, and that of y adds
        sigma^2.""",
    quick={**_TASK, "n": 1024, "within": 0.05, "steps": 2000},
    sizes=({"d": 8}, {"d": 16}),
)
def linear_succeeds_with_the_difference(settings: Settings, seed: int) -> Finding:
    """The w with w_k = 1/(d(d-1)) for k < d are the only solutions of sum_(k<d) w_k (P_k - P_d) = P_(d+1) -
    P_d; w_d is free, since it multiplies 0. With them the risk on the sign-inconsistent task is sigma^2 (1 +
    s^2), s^2 = |P_(d+1)|^2.
    """
    ssm = ResidualSSM(settings.d, settings.sigma, seed)
    P = ssm.features()
    columns = (P[:-2] - P[-2]).T
    w = torch.full((settings.d - 1,), 1 / (settings.d * (settings.d - 1)), dtype=torch.float64)
    level = settings.sigma**2 * (1 + ssm.s2)
    risks = {
        "least squares": _linear_risk(ssm, settings, seed, fit_residual_linear),
        "descent": _linear_risk(ssm, settings, seed, partial(descend_residual_linear, steps=settings.steps)),
    }
    risk_gap = abs(ssm.linear_risk(ssm.c, True) / level - 1)
    return Finding(
        conclusions=(
            Conclusion(SOLVED, "<=", 1e-9, (columns @ w - P[-1] + P[-2]).norm().item()),
            Conclusion("rank of the P_k - P_d", ">=", settings.d - 1, int(torch.linalg.matrix_rank(columns))),
            Conclusion("exact risk against sigma^2 (1 + s^2), relative gap", "<=", 1e-9, risk_gap),
            *(
                Conclusion(f"risk by {name} / (sigma^2 (1 + s^2))", "<=", 1 + settings.within, risk / level)
                for name, risk in risks.items()
            ),
        )
    )


SOLVED = "distance of the equation to being solved"
