"""Section 4.2, Appendices D, E and I: the model's gradient, its start, and the lemmas on its course."""

import math

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.common.sizes import by_size
from attangent.papers.p5_forecasting.claims import proofs
from attangent.papers.p5_forecasting.claims.scalar_regression import (
    ScalarRegression,
    asked_in_the_limit,
    exponent,
    scalar_regression,
)

LAZY = {"n": 16, "d": 8, "m": 256, "noise": 0.01, "delta": 0.05, "rate": 1.0, "steps": 150}


@claim(
    "P5/lemma-e.5",
    plain="The gradient is as printed.",
    place="Appendix E, Lemma E.5",
    title="Gradient of the attention model",
    quick={"n": 6, "d": 8, "m": 16, "noise": 0.01},
    full={"n": 64, "m": 256},
)
def gradient(settings: Settings, seed: int) -> Finding:
    """The derivatives in w_r of u, alpha, 1/alpha, S, F_i and the loss are those printed; above all dF_i/dw_r
    = m^(-1/2) a_r x_id Var_(S_ir)(x_i).
    """
    p = scalar_regression(settings, seed)
    parts = _printed_parts(p)
    true = _autograd_parts(p)
    gaps = {name: ((parts[name] - true[name]).norm() / true[name].norm()).item() for name in true}
    return Finding(
        conclusions=tuple(
            Conclusion(f"relative gap of {name} to autograd", "<=", 1e-9, gap) for name, gap in gaps.items()
        )
    )


def _printed_parts(p: ScalarRegression) -> dict[str, Tensor]:
    x = p.X[:, None, :]
    last = p.X[:, -1:, None]
    a = p.network.a
    m = p.network.m
    u = torch.exp(last * p.network.W[0][None, :, None] * x)  # (n, m, d)
    alpha = u.sum(dim=2, keepdim=True)
    S = p.network.attention(p.X)
    mean = (S * x).sum(dim=2, keepdim=True)
    variance = (S * x**2).sum(dim=2) - mean[..., 0] ** 2
    dF = a * p.X[:, -1:] * variance / math.sqrt(m)
    residual = (S * x).sum(dim=2) @ a[0] / math.sqrt(m) - p.y[:, 0]
    return {
        "u (Part 1)": last * u * x,
        "alpha (Part 2)": (last * u * x).sum(dim=2),
        "1/alpha (Part 3)": (-last / alpha * mean)[..., 0],
        "S (Part 4)": last * (x - mean) * S,
        "F (Part 5)": dF,
        "L (Part 6)": a[0] / math.sqrt(m) * (residual[:, None] * p.X[:, -1:] * variance).sum(dim=0),
    }


def _autograd_parts(p: ScalarRegression) -> dict[str, Tensor]:
    """Each derivative in w, of functions written out here; column r is the derivative in w_r."""
    w = p.network.W[0]
    m = p.network.m

    def u(w: Tensor) -> Tensor:
        return torch.exp(p.X[:, -1:, None] * w[None, :, None] * p.X[:, None, :])

    def outputs(w: Tensor) -> Tensor:
        S = u(w) / u(w).sum(dim=2, keepdim=True)
        return ((S * p.X[:, None, :]).sum(dim=2) @ p.network.a[0]) / math.sqrt(m)

    def by_neuron(function, /) -> Tensor:  # each neuron's quantities depend on its own weight only
        return torch.func.jvp(function, (w,), (torch.ones_like(w),))[1]

    return {
        "u (Part 1)": by_neuron(u),
        "alpha (Part 2)": by_neuron(lambda w: u(w).sum(dim=2)),
        "1/alpha (Part 3)": by_neuron(lambda w: 1 / u(w).sum(dim=2)),
        "S (Part 4)": by_neuron(lambda w: u(w) / u(w).sum(dim=2, keepdim=True)),
        "F (Part 5)": torch.func.jacrev(outputs)(w),
        "L (Part 6)": torch.func.grad(lambda w: 0.5 * (outputs(w) - p.y[:, 0]).square().sum())(w),
    }


@claim(
    "P5/zero-initialisation",
    nature="definition",
    plain="""Independent random weights do not give outputs 0 at the start, which another assumption
        demands; pairs of neurons do.""",
    failure=Failure(
        cause="P5/zero-initialisation",
        consequence="the start has to be changed to pairs of neurons; else only constants in the Hoeffding "
        "bounds change",
        first_size="m = 1",
        root="two assumptions exclude each other",
    ),
    proof=proofs.zero_start,
    place="Section 4.2, Definition D.2 and Assumption D.7",
    title="Outputs are zero at the start",
    quote="""w_r(0) ~ N(0, 1) ... a_r ~ Uniform{-1, +1} ... Then we assume that f(x_i, w(0), a) = 0, for
        all i, in our setting.""",
    quick={"n": 64, "d": 8, "m": 64, "noise": 0.01, "init": "independent"},
    full={"n": 1024, "m": 4096},
)
def zero_start(settings: Settings, seed: int) -> Finding:
    """f(x_i, w(0), a) = 0 at every training point (D.7), with every w_r(0) normal and every a_r a random
    sign, all drawn independently (D.2).
    """
    p = scalar_regression(settings, seed)
    return Finding(
        conclusions=(_zero_at_the_start(p),),
        remark="D.2 and D.7 exclude each other: with independent draws f at the start is a sum of m "
        "independent terms that is 0 with probability 0.",
    )


def _zero_at_the_start(p: ScalarRegression) -> Conclusion:
    return Conclusion("largest |f| at the start", "<=", 1e-12, p.network.forward(p.X).abs().max().item())


@claim(
    "P5/zero-initialisation-repaired",
    nature="definition",
    plain="Pairs of neurons start at 0 with the printed marginals.",
    sharp="sharp: exactly 0",
    title="Outputs are zero at the start for pairs of neurons",
    derivation="""The two neurons of a pair have the same softmax at the start and opposite signs, so that
        their terms cancel. The kernel H, a mean over neurons of even terms in a_r, is that of m/2
        independent neurons.""",
    quick={"n": 64, "d": 8, "m": 64, "noise": 0.01, "init": "symmetric"},
    sizes=({"m": 64}, {"m": 512}),
)
def zero_start_in_pairs(settings: Settings, seed: int) -> Finding:
    """With pairs of neurons that share one normal w_r(0) and have a_r = 1 and -1, f(x, w(0), a) = 0 at every
    x; marginally every w_r is normal and every a_r a fair sign.
    """
    p = scalar_regression(settings, seed)
    return Finding(
        conclusions=(
            _zero_at_the_start(p),
            Conclusion("|mean of a_r|", "<=", 1e-12, p.network.a.mean().abs().item()),
        )
    )


@claim(
    "P5/lemma-i.3",
    plain="""Printed: at every step each neuron moves towards the sign of its output weight. True at the
        start; for all t it contradicts convergence.""",
    failure=Failure(
        cause="P5/lemma-i.5",
        consequence="Theorem 5.2, Parts 1 and 2, and Theorem 5.3 fall; Proposition 6.3, Part 1, is not "
        "proved",
        first_size="once the loss has fallen, at every width",
    ),
    proof=proofs.lemma_i_3,
    place="Appendix I, Lemma I.3",
    title="Gradient direction",
    quote="If a_r = 1, we have: Delta w_r(t) <= -O(n gamma v_min / sqrt(m)) exp(-O(B^2 D))",
    quick={**LAZY, "n": 8, "widths": [32, 96, 256, 512], "steps": 60},
    full={"widths": [32, 128, 512, 2048], "steps": 250},
    rests_on=("P5/lemma-i.4", "P5/lemma-i.5", "P5/lemma-k.3"),
    seconds=1.0,
)
def direction(settings: Settings, seed: int) -> Finding:
    """At every step t each neuron moves towards the sign of its output weight: dL/dw_r <= -c for a_r = 1 and
    >= c for a_r = -1, with c > 0, in wide networks.
    """
    wrong = [1 - min(shares_towards(settings | {"m": m}, seed)) for m in settings.widths]
    least = settings | {"m": settings.widths[0]}
    halved = 1 - min(shares_towards(least | {"rate": settings.rate / 2, "steps": 2 * settings.steps}, seed))
    widest = settings | {"m": settings.widths[-1]}
    towards = shares_towards(widest, seed)[0]
    other_way = "largest share of neurons that move the other way at the largest width"
    return Finding(
        hypotheses=(
            *asked_in_the_limit(scalar_regression(widest, seed), widest),
            Hypothesis("change of that share when the rate is halved", "<=", 0.1, abs(halved - wrong[0])),
        ),
        conclusions=(
            Conclusion(other_way, "<=", 0.0, wrong[-1]),
            Conclusion("share that moves towards a_r at the first step", ">=", 1.0, towards, claimed=False),
        ),
        numbers=by_size("largest share that moves the other way, m = {}", settings.widths, wrong),
        remark="It holds while the outputs are near zero. The proof keeps them there for all t, by Lemma "
        "I.5, which contradicts convergence: once the loss falls, residuals of both signs turn "
        "neurons round, whatever the width.",
    )


def shares_towards(settings: Settings, seed: int) -> list[float]:
    """The share of neurons whose step goes towards the sign of a_r, at 21 times from the start on."""
    p = scalar_regression(settings, seed)
    times = sorted({round(settings.steps * k / 20) for k in range(21)})
    run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps, keep=times)
    looks = [run.snapshots[t] for t in times if t in run.snapshots]
    towards = [-(p.network.a[0] * look.gradient(p.X, p.y)[0]) for look in looks]
    return [(g > 0).double().mean().item() for g in towards]


@claim(
    "P5/lemma-i.3-repaired",
    plain="At initialisation, with outputs 0, every neuron moves towards the sign of its output weight.",
    sharp="sharp in time: it fails once residuals of both signs appear",
    title="Gradient direction at the start",
    derivation="""With F = 0 Lemma E.5 gives dL/dw_r = -m^(-1/2) a_r sum_i y_i x_id Var_ir. E[y_i x_id
        Var_ir] > 0 since y_i = (d-1)/d x_id + terms of mean 0 and Var_ir > 0; the sum over i concentrates
        about n times that. The same sign argument with F in place of 0 fails as soon as residuals of both
        signs appear: the paper pulls Var_ir out of a sum whose terms have both signs.""",
    quick={**LAZY, "n": 32, "steps": 0},
    sizes=({"n": 32}, {"n": 128}),
)
def direction_at_the_start(settings: Settings, seed: int) -> Finding:
    """At t = 0, with outputs 0, every neuron moves towards the sign of a_r wherever sum_i y_i x_id Var_ir >
    0, which holds for all neurons at once for data of Definition C.3 and n of a few d.
    """
    share = shares_towards(settings, seed)[0]
    return Finding(conclusions=(Conclusion("share of neurons that move towards a_r", ">=", 1.0, share),))


@claim(
    "P5/lemma-i.4",
    plain="The step of the proof holds without constants; the stated bound says nothing at sizes in reach.",
    place="Appendix I, Lemma I.4",
    title="Variance lower bound",
    quote="<S, x^2> - <S, x>^2 >= exp(-O(B^2 D)) v_min",
    rests_on=("P5/fact-b.8", "P5/lemma-k.3"),
    quick={**LAZY, "constant": 2.0},
    full={"n": 32, "m": 512, "steps": 300},
)
def variance(settings: Settings, seed: int) -> Finding:
    """In training, Var_(S_ir)(x_i) >= exp(-O(B^2 D)) v_min for every point and neuron."""
    p = scalar_regression(settings, seed)
    final = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps).final
    S = final.attention(p.X)
    x = p.X[:, None, :]
    spread = (S * (x - (S * x).sum(dim=2, keepdim=True)) ** 2).sum(dim=2)
    variances = p.X.var(dim=1, correction=0)
    exact = S.min(dim=2).values * settings.d * variances[:, None]
    least = (spread / exact).min().item()
    ratio = math.log10(max(spread.min().item(), 1e-300) / variances.min().item())
    step = "smallest variance / (d v_i min_k S_k), the step of the proof"
    return Finding(
        conclusions=(
            Conclusion(step, ">=", 1 - 1e-9, least, part="step"),
            Conclusion(
                "smallest variance / v_min", ">=", -exponent(settings), ratio, log10=True, part="bound"
            ),
        ),
        remark="The step that the proof takes, d v_i times the smallest attention, holds without constants "
        "and whatever the width; the bound that it ends with cannot fail at this size.",
    )
