"""Section 4.2, Appendices D, E and I: the model's gradient, its start, and the lemmas on its course."""

import math

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.papers.p5.scalar_regression import ScalarRegression, asked, exponent, scalar_regression
from attangent.audit.registry import claim

_LAZY = {"n": 16, "d": 8, "m": 256, "noise": 0.01, "delta": 0.05, "rate": 1.0, "steps": 150}


@claim(
    "P5/lemma-e.5",
    place="Appendix E, Lemma E.5",
    title="Gradient of the attention model",
    statement="""The derivatives in w_r of u, alpha, 1/alpha, S, F_i and the loss are those printed; above all
        dF_i/dw_r = m^(-1/2) a_r x_id Var_(S_ir)(x_i).""",
    quick={"n": 6, "d": 8, "m": 16, "noise": 0.01},
    full={"n": 64, "m": 256},
    seconds=0.1,
)
def gradient(settings: Settings, seed: int) -> Finding:
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
    x, last, a, m = p.X[:, None, :], p.X[:, -1:, None], p.network.a, p.network.m
    u = torch.exp(last * p.network.W[0][None, :, None] * x)  # (n, m, d)
    alpha = u.sum(dim=2, keepdim=True)
    S = p.network.attention(p.X)
    mean = (S * x).sum(dim=2, keepdim=True)
    dF = a * p.X[:, -1:] * ((S * x**2).sum(dim=2) - mean[..., 0] ** 2) / math.sqrt(m)
    return {
        "u (Part 1)": last * u * x,
        "alpha (Part 2)": (last * u * x).sum(dim=2),
        "1/alpha (Part 3)": (-last / alpha * mean)[..., 0],
        "S (Part 4)": last * (x - mean) * S,
        "F (Part 5)": dF,
        "L (Part 6)": p.network.gradient(p.X, p.y)[0],
    }


def _autograd_parts(p: ScalarRegression) -> dict[str, Tensor]:
    """Each derivative in w, of functions written out here; column r is the derivative in w_r."""
    w, m = p.network.W[0], p.network.m

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
    place="Section 4.2 and Appendix D.5, Assumption D.7",
    title="Outputs are zero at the start",
    statement="f(x_i, w(0), a) = 0 at every training point, with w_r(0) normal and a_r a random sign.",
    quick={"n": 64, "d": 8, "m": 64, "noise": 0.01, "init": "symmetric"},
    full={"n": 1024, "m": 4096},
    seconds=0.05,
)
def zero_start(settings: Settings, seed: int) -> Finding:
    def largest(init: str) -> float:
        p = scalar_regression(settings | {"init": init}, seed)
        return p.network.forward(p.X).abs().max().item()

    independent = largest("independent")
    return Finding(
        conclusions=(
            Conclusion("largest |f| at the start", "<=", 1e-12, largest(settings.init)),
            Conclusion(
                "the same where all w_r and a_r are independent", ">=", 1e-3, independent, claimed=False
            ),
        ),
        numbers={"largest |f| with independent weights": independent},
        remark="Definition D.2 draws all weights independently, which does not give zero; pairs of neurons "
        "with one w and opposite signs do, exactly and at every x.",
    )


@claim(
    "P5/lemma-i.3",
    place="Appendix I, Lemma I.3",
    title="Gradient direction",
    statement="""At every step t each neuron moves towards the sign of its output weight: dL/dw_r <= -c for
        a_r = 1 and >= c for a_r = -1, with c = n gamma v_min m^(-1/2) exp(-O(B^2 D)).""",
    quick=_LAZY,
    full={"n": 64, "m": 1024, "steps": 5000},
    seconds=0.6,
)
def direction(settings: Settings, seed: int) -> Finding:
    p = scalar_regression(settings, seed)
    times = sorted({0, *(round(settings.steps * k / 20) for k in range(21))})
    run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps, keep=times)
    towards = [-(p.network.a[0] * run.snapshots[t].gradient(p.X, p.y)[0]) for t in times]
    shares = [(g > 0).double().mean().item() for g in towards]
    least = math.log10(
        settings.n * (settings.d - 1) / settings.d * _least_variance(p) / math.sqrt(settings.m)
    )
    smallest = towards[0].min().item()
    return Finding(
        hypotheses=asked(p, settings),
        conclusions=(
            Conclusion(
                "smallest share of neurons that move towards a_r, over time",
                ">=",
                1.0,
                min(shares),
                first_violation=next((t for t, s in zip(times, shares, strict=True) if s < 1), None),
            ),
            Conclusion("that share at the start", ">=", 1.0, shares[0], claimed=False),
            Conclusion(
                "smallest move at the start",
                ">=",
                least - exponent(settings),
                math.log10(smallest) if smallest > 0 else -math.inf,
                log10=True,
                claimed=False,
            ),
        ),
        numbers={
            "share at the end": shares[-1],
            "loss at the end / at the start": (run.loss[-1] / run.loss[0]).item(),
        },
        figures=(
            Figure(
                "Neurons that move towards their sign", "step", "share", (Series.of("share", times, shares),)
            ),
        ),
        remark="It holds while the outputs are near zero. The proof keeps them there for all t, which "
        "contradicts convergence: once the loss falls, residuals of both signs turn neurons round.",
    )


def _least_variance(p: ScalarRegression) -> float:
    """v_min, the smallest variance within a window."""
    return p.X.var(dim=1, correction=0).min().item()


@claim(
    "P5/lemma-i.4",
    place="Appendix I, Lemma I.4",
    title="Variance lower bound",
    statement="In training, Var_(S_ir)(x_i) >= exp(-O(B^2 D)) v_min for every point and neuron.",
    quick={**_LAZY, "constant": 2.0},
    full={"n": 64, "m": 1024, "steps": 5000},
    seconds=0.5,
)
def variance(settings: Settings, seed: int) -> Finding:
    p = scalar_regression(settings, seed)
    final = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps).final
    S, x = final.attention(p.X), p.X[:, None, :]
    spread = (S * (x - (S * x).sum(dim=2, keepdim=True)) ** 2).sum(dim=2)
    exact = S.min(dim=2).values * settings.d * p.X.var(dim=1, correction=0)[:, None]
    return Finding(
        hypotheses=asked(p, settings),
        conclusions=(
            Conclusion(
                "smallest variance / v_min",
                ">=",
                -exponent(settings),
                math.log10(spread.min().item() / _least_variance(p)),
                log10=True,
            ),
            Conclusion(
                "smallest variance / (d v_i min_k S_k)",
                ">=",
                1 - 1e-9,
                (spread / exact).min().item(),
                claimed=False,
            ),
        ),
        remark="The bound that the proof really gives, d v_i times the smallest attention, holds without "
        "constants.",
    )


@claim(
    "P5/lemma-i.5",
    place="Appendix I, Lemma I.5",
    title="Outputs stay concentrated",
    statement="""If no weight moved by more than R, then |F_i(t) - F_i(0)| <= exp(O(B^2 D)) O(R), whatever the
        width.""",
    quick={**_LAZY, "constant": 2.0, "widths": [64, 256, 1024], "steps": 20},
    full={"widths": [64, 256, 1024, 4096, 16384]},
    seconds=0.6,
)
def concentration(settings: Settings, seed: int) -> Finding:
    factors, bounds = [], []
    for m in settings.widths:
        sized = settings | {"m": m}
        p = scalar_regression(sized, seed)
        run = p.network.descend(p.X, p.y, p.rate(settings.rate), settings.steps)
        change = (run.final.forward(p.X) - p.network.forward(p.X)).abs().max().item()
        factors.append(change / run.movement[-1].item())
        bounds.append(exponent(sized))
    growth = math.log(factors[-1] / factors[0]) / math.log(settings.widths[-1] / settings.widths[0])
    worst = max(math.log10(factor) - bound for factor, bound in zip(factors, bounds, strict=True))
    return Finding(
        conclusions=(
            Conclusion("largest |F(t) - F(0)| / (R exp(O(B^2 D)))", "<=", 0.0, worst, log10=True),
            Conclusion("exponent of its growth with the width", ">=", 0.3, growth, claimed=False),
        ),
        numbers={
            f"|F(t) - F(0)| / R at m = {m}": factor
            for m, factor in zip(settings.widths, factors, strict=True)
        },
        figures=(
            Figure(
                "Change of outputs by largest move of a weight",
                "width m",
                "|F(t) - F(0)| / R",
                (Series.of("measured", settings.widths, factors),),
                log_x=True,
                log_y=True,
            ),
        ),
        remark="The factor grows like the square root of m: after training, signs and moves are not "
        "independent, so that Hoeffding's inequality does not apply as in the proof. The stated constant "
        "is so large that it hides this.",
    )
