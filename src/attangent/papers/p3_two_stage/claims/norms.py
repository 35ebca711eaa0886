"""Assumption 2, Propositions 3 and 4: norms of tokens, gradients and signal weights."""

import math

import torch
from torch import Tensor

from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Series, Settings, claim
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import no_growth
from attangent.papers.p3_two_stage.claims import proofs_of_steps
from attangent.papers.p3_two_stage.claims.two_stage_setting import signal_norm, train_and_watch
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, ReluWeights
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, train

ROWS = {"dimensions": [8, 16, 32, 64], "L": 33, "N": 100, "std": 0.1, "runs": 4, "steps": 6, "frame": "axes"}


@claim(
    "P3/proposition-3",
    nature="lemma",
    plain="""Printed: every row of a gradient of norm K is at most K/sqrt(d). True: nothing spreads it
        over rows; along z and zeta two rows hold all of it.""",
    failure=Failure(
        cause="P3/proposition-3",
        consequence="the bounds on rows fall; no theorem uses them",
        first_size="d > 2 C^2 for the constant C: d = 3 with C = 1, d = 201 with C = 10",
        root="a norm is spread over rows by assumption",
    ),
    proof=proofs_of_steps.rows,
    place="Appendix E, Propositions 3 and 4, the bounds on rows",
    title="Rows of the gradient and of the signal weights",
    quote="Assume that L is K-Lipschitz continuous, then ... ||[grad_W L(U)]_i||_2 <~ K / sqrt(d)",
    quick=ROWS,
    full={"dimensions": [8, 16, 32, 64, 128, 256], "runs": 10},
)
def rows_of_the_gradient(settings: Settings, seed: int) -> Finding:
    """If the gradient has norm at most K everywhere, its rows have norm at most a constant times K/sqrt(d),
    and the rows of the signal weights at most a constant times K/(lambda sqrt(d)).
    """
    d = settings.dimensions
    measured = [row_ratios(settings, size, seed) for size in d]
    ratios = {name: [ratio[name] for ratio in measured] for name in measured[0]}
    largest = "largest row sqrt(d)"
    lines = []
    for name, values in ratios.items():
        part = name.partition(" ")[0]
        bound = {"gradient": "K", "signal": "(K/lambda)"}[part]
        tells = name != "signal of V"  # which is too small compared with K/lambda
        line = f"exponent in d of {largest} / {bound}, {name}"
        lines.append(no_growth(line, d, values, claimed=tells, part=part))
    return Finding(
        conclusions=tuple(lines),
        numbers={f"{largest} / bound at the largest d, {name}": v[-1] for name, v in ratios.items()},
        figures=(
            plot(
                "The largest row",
                ("d", f"{largest} / bound"),
                *(Series.of(name, d, values) for name, values in ratios.items()),
            ),
        ),
        remark="K is the largest norm during training. Nothing spreads the gradient evenly over its rows: "
        "with w*, z, zeta along coordinate axes it is concentrated in one or two of them.",
    )


def row_ratios(settings: Settings, d: int, seed: int) -> dict[str, float]:
    """Return largest row sqrt(d) / K for the gradients over W and V, and / (K/lambda) for the signals at the
    end. The largest values over runs and steps count; lambda = 1/sqrt(log d).
    """
    data = TwoStageData(d, settings.L, frame=settings.frame, seed=seed)
    model = ReluAttention(d, std=settings.std, runs=settings.runs, seed=seed)
    decay = 1 / math.sqrt(math.log(d))
    seen = list[ReluWeights]()
    config = NoisySGD((ConstantRate(0.5, settings.steps),), decay, settings.std, record_every=10**9)
    prompts = data.sample(settings.N, runs=settings.runs, seed=seed)
    course = train(model, prompts, config, seed=seed, observer=lambda _s, _r, g, _x: seen.append(g))
    K = [max(signal_norm(gradient[i]).max().item() for gradient in seen) for i in (0, 1)]
    rows = [max(_largest_row(gradient[i]) for gradient in seen) for i in (0, 1)]
    signal = [_largest_row(course.ends[-1].signal[i]) for i in (0, 1)]
    root = math.sqrt(d)
    return {
        **{f"gradient over {'WV'[i]}": rows[i] * root / K[i] for i in (0, 1)},
        **{f"signal of {'WV'[i]}": signal[i] * decay * root / K[i] for i in (0, 1)},
    }


def _largest_row(matrices: Tensor) -> float:
    return matrices[:, 0].norm(dim=-1).max().item()


@claim(
    "P3/proposition-3-repaired",
    nature="lemma",
    plain="In a random frame the rows are of order K sqrt(log d / d).",
    sharp="not sharp: the factor sqrt(log d) comes from the largest of d rows, whose constant is not known",
    title="Rows in a random frame",
    derivation="""In a random frame row i is r_i'G with r_i uniform on the sphere and independent of G, so
        E|r_i'G|^2 = |G|_F^2/d. r -> |r'G| is Lipschitz with the constant |G|_F. By concentration on the
        sphere no row exceeds |G|_F (1 + sqrt(6 log d)) / sqrt(d), except with probability of order d^-2.
        Decay sums such rows to K/lambda times the same.""",
    quick={**ROWS, "frame": "random"},
    sizes=({"dimensions": [16]}, {"dimensions": [64]}),
)
def rows_in_a_random_frame(settings: Settings, seed: int) -> Finding:
    """In an orthonormal frame drawn at random, independent of the data, the rows of a gradient of norm at
    most K have norm at most a constant times K sqrt(log d / d) with high probability; otherwise only K.
    """
    (d,) = settings.dimensions
    bound = 1 + math.sqrt(6 * math.log(d))
    return Finding(
        conclusions=tuple(
            Conclusion(f"largest row sqrt(d) / bound, {name}", "<=", bound, value)
            for name, value in row_ratios(settings, d, seed).items()
        )
    )


@claim(
    "P3/proposition-4",
    nature="lemma",
    plain="The signal weights never exceed K/lambda, as printed. This is what Theorem 2 contradicts.",
    place="Appendix E, Proposition 4, the bounds on norms",
    title="The signal weights have norm at most K/lambda",
    quote="we have that signal weight norm satisfies ... ||W_t||_F <~ K / lambda",
    rests_on=("P3/proposition-1",),
    quick={
        "d": 16, "L": 33, "N": 64, "std": 0.5, "rate": 10.0, "steps": 120, "weight_decay": 2e-3, "runs": 4,
        "gradient_factor": 1.0,
    },
    full={"steps": 3000, "runs": 20},
    seconds=0.6,
)  # fmt: skip
def signal_norm_bound(settings: Settings, seed: int) -> Finding:
    """If all gradients have norm at most K and 0 < eta lambda < 1, the signal weights never exceed K/lambda,
    W and V each with their own K.
    """
    data = TwoStageData(settings.d, settings.L, seed=seed)
    model = ReluAttention(settings.d, std=settings.std, runs=settings.runs, seed=seed)
    stages = (ConstantRate(settings.rate, settings.steps),)
    every = max(1, settings.steps // 100)
    config = NoisySGD(stages, settings.weight_decay, settings.std, record_every=every)
    prompts = data.sample(settings.N, runs=settings.runs, seed=seed)
    course, norms = train_and_watch(model, prompts, config, seed)
    bounds = settings.gradient_factor * _with_both(norms) / settings.weight_decay
    signal = _with_both(torch.stack((course.norm_W, course.norm_V), 1))
    most = bounds.amax(0)  # (3, runs)
    ratios = signal / most
    return Finding(
        hypotheses=(Hypothesis("eta lambda", "<=", 1 - 1e-9, settings.rate * settings.weight_decay),),
        conclusions=tuple(
            Conclusion(f"largest |signal of {name}| lambda / K", "<=", 1 + 1e-12, ratios[:, i].max().item())
            for i, name in enumerate("WVU")
        ),
        numbers={
            "K/lambda for W, mean of runs": most[0].mean().item(),
            "|signal of W| at the end, mean of runs": signal[-1, 0].mean().item(),
        },
        figures=(
            plot(
                "Signal weights and their bound, first run",
                ("step", "norm"),
                Series.of("W", course.steps, signal[:, 0, 0]),
                Series.of("V", course.steps, signal[:, 1, 0]),
                Series.of("K/lambda for W", course.steps, most[0, 0].expand(len(course.steps)), "bound"),
                log="",
            ),
        ),
    )


def _with_both(norms: Tensor) -> Tensor:
    """Add the norms of W and V together to those of W and of V, (steps, 2, runs)."""
    W, V = norms.unbind(1)
    return torch.stack((W, V, (W**2 + V**2).sqrt()), 1)


@claim(
    "P3/assumption-2",
    nature="definition",
    plain="""Printed: P tokens have a norm of at most u + gamma_0. True: their norm is near 1 whatever u,
        so the assumption contradicts Section 3.1 for u < 1; constants change, except where small u is
        used.""",
    failure=Failure(
        cause="P3/assumption-2",
        consequence="constants change: 1 + gamma_0 for u + gamma_0 in bounds on P parts, except where small "
        "u makes them small",
        first_size="every d, for u <= 1/2",
        root="the norm of Q tokens is used for P tokens",
    ),
    proof=proofs_of_steps.token_norms,
    place="Appendix E, Assumption 2 (stated with a proof), used with small u",
    title="Norms of the tokens",
    quote="For X_1, X_2 that satisfies the data structure ... ||[X_1^T]_i||_2 <= u + gamma_0",
    quick={"d": 16, "L": 257, "u": 0.5, "r": 0.005, "prompts": 20},
    full={"d": 64, "L": 4097},
)
def norms_of_tokens(settings: Settings, seed: int) -> Finding:
    """Every P token has a norm of at most u + gamma_0, where u = |z| is small, and every Q token one of at
    most u + r.
    """
    data = TwoStageData(settings.d, settings.L, u=settings.u, r=settings.r)
    prompts = data.sample(settings.prompts, seed=seed)
    easy, hard = (x.norm(dim=-1).max().item() for x in (prompts.x1, prompts.x2))
    largest_easy = easy / (settings.u + data.margin)
    largest_hard = hard / (settings.u + settings.r)
    return Finding(
        hypotheses=(Hypothesis("u (small u)", "<=", 0.5, settings.u),),
        conclusions=(
            Conclusion("largest |x_i1| / (u + gamma_0)", "<=", 1.0, largest_easy, part="P tokens"),
            Conclusion("largest |x_i2| / (u + r)", "<=", 1.0, largest_hard, part="Q tokens"),
        ),
        remark="A P token is gamma_0 w* + e with e ~ N(0, I/d): its norm is near 1 and does not depend on u "
        "= |z|.",
    )


@claim(
    "P3/assumption-2-repaired",
    plain="P tokens have a norm of at most 1 + gamma_0 + sqrt(2 log(Ld)/d) with high probability.",
    sharp="not sharp: the deviation is of smaller order for d well above log L",
    title="Norms of the tokens",
    derivation="""|x| <= gamma_0 + |e| with e ~ N(0, I/d). E|e| <= 1, and |e| is Lipschitz in sqrt(d) e with
        the constant 1/sqrt(d): P(|e| > 1 + t) <= exp(-d t^2/2), which is 1/(Ld) at t = sqrt(2 log(Ld)/d).""",
    quick={"d": 16, "L": 257, "u": 0.5, "r": 0.005, "prompts": 200},
    sizes=({"d": 16}, {"d": 64}),
)
def norms_with_high_probability(settings: Settings, seed: int) -> Finding:
    """With probability 1 - 1/d every P token of a prompt has a norm of at most 1 + gamma_0 + sqrt(2
    log(Ld)/d), and every Q token one of at most u + r.
    """
    d = settings.d
    L = settings.L
    data = TwoStageData(d, L, u=settings.u, r=settings.r)
    norms = data.sample(settings.prompts, seed=seed).x1.norm(dim=-1).amax(-1)
    bound = 1 + data.margin + math.sqrt(2 * math.log(L * d) / d)
    longer = share_above("with a longer P token", norms, bound, 1 / d)
    return Finding(conclusions=(longer,), numbers={"longest P token / bound": norms.max().item() / bound})


def share_above(which: str, values: Tensor, bound: float, allowed: float) -> Conclusion:
    """Compare how many prompts exceed a bound that holds with high probability with how many may."""
    share = (values > bound).double().mean().item()
    return Conclusion(f"fraction of prompts {which}", "<=", allowed, share)
