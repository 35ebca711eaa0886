"""Repaired forms of the lemmas and steps that the theorems of P3 rest on."""

import math

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding
from attangent.audit.registry import claim
from attangent.papers.p3_two_stage.claims.elementary import ASSUMED
from attangent.papers.p3_two_stage.claims.noise_answers import SETTING as ANSWERS
from attangent.papers.p3_two_stage.claims.noise_answers import answers_over_lengths
from attangent.papers.p3_two_stage.claims.patterns import (
    added_variance,
    changed_share,
    flips_by_turning,
    log_kept,
    parts_and_noise,
)
from attangent.papers.p3_two_stage.claims.proof_steps import (
    COUNTED,
    active_counts,
    expected_optimum,
    optimum,
    signal_over_noise,
    telling_shares,
)
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1, easy_pull
from attangent.papers.p3_two_stage.theory.attention import scores
from attangent.papers.p3_two_stage.theory.data import TwoStageData


@claim(
    "P3/lemma-6-repaired",
    repairs="P3/lemma-6",
    place="ours",
    title="Signs that a signal can change",
    statement="""Every signal of norm at most S changes only signs of tokens with |x_i'U x_L| <= S
        |x_i||x_L|, U being the noise weights; their expected number is at most sqrt(2/pi) (S/tau_0) L.""",
    derivation="""The sign of s_i + t_i differs from that of s_i only if |s_i| <= |t_i|, and |x_i'S x_L| <=
        |S||x_i||x_L|. x_i'U x_L is normal with the standard deviation tau_0 |x_i||x_L|, and P(|N(0,1)| <=
        a) <= sqrt(2/pi) a. No independence of the scores is needed for a mean.""",
    quick={"d": 16, "L": 257, "prompts": 200, "tau_0": 1.0, "signal": 0.3},
    sizes=({"L": 257}, {"L": 1025}),
    seconds=0.5,
)
def signs_within_reach(settings: Settings, seed: int) -> Finding:
    lines = []
    for name, (part, U) in parts_and_noise(settings, settings.d, settings.L, seed).items():
        sizes = part.context[:, 0].norm(dim=-1) * part.query[:, 0].norm(dim=-1, keepdim=True)
        near = scores(part, U)[:, 0, 0].abs() <= settings.signal * sizes
        reach = (near * part.labels[:, 0].abs()).sum(-1)
        flips = flips_by_turning(part, U, settings.signal)
        error = (reach.std() / math.sqrt(len(reach))).item()
        mean = math.sqrt(2 / math.pi) * settings.signal / settings.tau_0 * settings.L
        lines += [
            Conclusion(
                f"most signs changed beyond those in reach, {name} parts",
                "<=",
                0.0,
                (flips - reach).max().item(),
            ),
            Conclusion(
                f"tokens in reach less three errors / bound on the mean, {name} parts",
                "<=",
                1.0,
                (reach.mean().item() - 3 * error) / mean,
            ),
        ]
    return Finding(conclusions=tuple(lines))


@claim(
    "P3/lemma-7-repaired",
    repairs="P3/lemma-7",
    place="ours",
    title="Signs over the second stage",
    statement="""After t steps of stage 2 the expected share of signs that have changed is arccos(rho)/pi
        with rho = k tau_0 / sqrt(k^2 tau_0^2 + s^2), where k = (1 - eta_2 lambda)^t and s^2 is the variance
        that stage 2 adds. It is of order sqrt(eta_2/eta_1) for t <= 1/(eta_2 lambda), and 1/2 after the
        theorem's t_2.""",
    derivation="""By Proposition 5 a score is k a + b with independent normal a, b of standard deviations
        tau_0 |x||x_L| and s |x||x_L|; two normal variables of correlation rho differ in sign with
        probability arccos(rho)/pi. s^2 <= 2 tau_0^2 eta_2/eta_1, so that tan(arccos rho) = s/(k tau_0) <=
        e^(t eta_2 lambda) sqrt(2 eta_2/eta_1) up to rounding of k.""",
    quick={**ASSUMED, "u": 0.4, "r": 0.04, "prompts": 60, "d": 16},
    sizes=({"d": 16}, {"d": 32}),
    seconds=0.5,
)
def signs_over_the_second_stage(settings: Settings, seed: int) -> Finding:
    d = settings.d
    scale = Assumption1.of(settings, d)
    eps = scale.epsilon(scale.hard)
    one_decay = eps**2 / math.log(1 / eps) ** 2
    lines = []
    for name, length in (("1/(eta_2 lambda) steps", one_decay), ("t_2 steps", 1.0)):
        sized = settings | {"length_of_stage": length}
        expected = _share(math.exp(log_kept(sized, d)) * scale.init_std, math.sqrt(added_variance(sized, d)))
        found = changed_share(sized, d, seed)
        spread = 4 * 0.5 / math.sqrt(settings.prompts)  # one vector turns the signs of a whole prompt
        lines.append(
            Conclusion(
                f"distance of the share to arccos(rho)/pi after {name}",
                "<=",
                min(spread, expected),
                abs(found - expected),
            )
        )
    return Finding(conclusions=tuple(lines))


def _share(kept: float, added: float) -> float:
    return math.atan2(added, kept) / math.pi


@claim(
    "P3/equation-21-repaired",
    repairs="P3/equation-21",
    place="ours",
    title="What the noise weights answer on the prompts of Section 3.1",
    statement="""On the prompts of Section 3.1 the answer of the noise weights is (mu/2) w*'W x_L for P
        parts, and -(|b| - |a|)_+ / 4 with a = z'V x_L, b = zeta'V x_L for Q parts, up to tau_0 |x|^2 sqrt(d
        log d / L). The first is of order tau_0 / sqrt(d), the second at most tau_0 r |x| / 4: neither falls
        with L.""",
    derivation="""The tokens of a context are independent given W and x_L, so that the answer is its mean up
        to Hoeffding's bound. For P parts E y relu(s) = E[y s]/2 + E[y |s|]/2; the second vanishes since (x,
        y) and (-x, -y) have the same law, and E[y x] = mu w*. For Q parts the mean is relu(a)/2 -
        (relu(a+b) + relu(a-b))/4.""",
    quick={**ANSWERS, "lengths": [33, 129, 513, 2049], "independent_labels": False},
    sizes=({"d": 16}, {"d": 32}),
    seconds=0.8,
)
def answers_have_a_mean(settings: Settings, seed: int) -> Finding:
    found = answers_over_lengths(settings, seed)
    return Finding(
        conclusions=tuple(
            Conclusion.of_trend(
                f"growth exponent in L of |answer - mean|, {name} parts",
                "<=",
                -0.3,
                settings.lengths,
                found.distances[name],
            )
            for name in "PQ"
        ),
        numbers={f"|answer| at the largest L, {name} parts": found.sizes[name][-1] for name in "PQ"},
    )


@claim(
    "P3/assumption-2-repaired",
    repairs="P3/assumption-2",
    place="ours",
    title="Norms of the tokens",
    statement="""With probability 1 - 1/d every P token of a prompt has a norm of at most 1 + gamma_0 + sqrt(2
        log(Ld)/d), and every Q token one of at most u + r.""",
    derivation="""|x| <= gamma_0 + |e| with e ~ N(0, I/d). E|e| <= 1 and |e| is Lipschitz in sqrt(d) e with
        the constant 1/sqrt(d): P(|e| > 1 + t) <= exp(-d t^2/2), which is 1/(Ld) at t = sqrt(2 log(Ld)/d).""",
    quick={"d": 16, "L": 257, "u": 0.5, "r": 0.005, "prompts": 200},
    sizes=({"d": 16}, {"d": 64}),
    seconds=0.2,
)
def norms_of_tokens(settings: Settings, seed: int) -> Finding:
    d, L = settings.d, settings.L
    data = TwoStageData(d, L, u=settings.u, r=settings.r)
    norms = data.sample(settings.prompts, seed=seed).x1.norm(dim=-1).amax(-1)
    bound = 1 + data.margin + math.sqrt(2 * math.log(L * d) / d)
    longer = _share_above("with a longer P token", norms, bound, 1 / d)
    return Finding(conclusions=(longer,), numbers={"longest P token / bound": norms.max().item() / bound})


def _share_above(which: str, values: Tensor, bound: float, allowed: float) -> Conclusion:
    """How many prompts exceed a bound that holds with high probability, against how many may."""
    share = (values > bound).double().mean().item()
    return Conclusion(f"share of prompts {which}", "<=", allowed, share)


@claim(
    "P3/activation-count-repaired",
    repairs="P3/activation-count",
    place="ours",
    title="How many tokens are active",
    statement="""With probability 1 - 1/d the number of active P tokens is L/2 up to sqrt(L log(2d)/2).""",
    derivation="""Given W and x_L the tokens are independent and x and -x have the same law, so that each is
        active with probability 1/2. Hoeffding's inequality for L variables in [0, 1] gives the rest.""",
    quick={**COUNTED, "prompts": 30},
    sizes=({"d": 8}, {"d": 24}),
    seconds=0.2,
)
def half_the_tokens_are_active(settings: Settings, seed: int) -> Finding:
    L = Assumption1.of(settings, settings.d).L
    strayed = (active_counts(settings, settings.d, seed) - 0.5).abs() * (L - 1)
    allowed = math.sqrt(L * math.log(2 * settings.d) / 2)
    error = 3 * math.sqrt(1 / settings.d / strayed.numel())
    return Finding(
        conclusions=(_share_above("outside", strayed, allowed, 1 / settings.d + error),),
        numbers={"largest distance to L/2 / allowed": strayed.max().item() / allowed},
    )


@claim(
    "P3/equation-23-repaired",
    repairs="P3/equation-23",
    place="ours",
    title="The answer at the optimum W*",
    statement="""The mean answer y_L N(W*) at W* = d log(1/eps) w* w*' is d log(1/eps) mu^2/2 = (1 +
        sqrt(2/pi))^2/2 log(1/eps), about 1.62 log(1/eps): large enough for a loss of order eps.""",
    derivation="""E[y x 1(x'W x_L > 0)] = mu w*/2 for any W (see Theorem 2 as repaired), hence the mean over
        contexts is d log(1/eps) (mu/2) w*'x_L, and E[y_L w*'x_L] = mu.""",
    quick={**COUNTED, "prompts": 60},
    sizes=({"d": 16}, {"d": 32}),
    seconds=0.4,
)
def answer_at_the_optimum(settings: Settings, seed: int) -> Finding:
    answer, loss, eps = optimum(settings, settings.d, seed)
    expected = expected_optimum(settings.d, eps)
    return Finding(
        conclusions=(
            Conclusion("distance of the answer / expected to 1", "<=", 0.15, abs(answer / expected - 1)),
            Conclusion("K1(W*) / eps", "<=", 1.0, loss / eps),
        ),
        numbers={"answer": answer, "expected": expected},
    )


@claim(
    "P3/definition-5-repaired",
    repairs="P3/definition-5",
    place="ours",
    title="How many tokens tell z - zeta, z and z + zeta apart",
    statement="""The mean of |H_1| is between 1 and 1 + r/u off L atan(r/u)/(2 pi) by its prototypes'
        angles, and H_1 is empty but with probability at most 3 atan(r/u)/(2 pi): it does not concentrate.""",
    derivation="""For one token v = V'x is a normal vector whose direction in the plane of z and zeta is
        uniform, and the three conditions leave an arc of the angle between z and z + zeta, atan(r/u). A
        prompt has three different tokens at most, and the union bound gives the second part.""",
    quick={"u": 1.0, "r": 0.2, "draws": 40_000, "L": 1025},
    sizes=({"r": 0.2}, {"r": 0.05}),
    seconds=0.3,
)
def telling_tokens(settings: Settings, seed: int) -> Finding:
    shares = telling_shares(settings, settings.L, seed)
    arc = math.atan(settings.r / settings.u) / (2 * math.pi)
    errors = (shares.std() / math.sqrt(len(shares))).item()
    nonempty = (shares > 0).double().mean().item()
    return Finding(
        conclusions=(
            Conclusion(
                "distance of the mean share to atan(r/u)/(2 pi), standard errors",
                "<=",
                4.0,
                abs(shares.mean().item() - arc) / errors,
            ),
            Conclusion("P(H_1 is not empty) / (3 atan(r/u)/(2 pi))", "<=", 1.0, nonempty / (3 * arc)),
        ),
        numbers={"P(H_1 is not empty)": nonempty, "least share where it is not": _least(shares)},
    )


def _least(shares: torch.Tensor) -> float:
    return shares[shares > 0].min().item() if (shares > 0).any() else math.nan


@claim(
    "P3/signal-dominates-noise-repaired",
    repairs="P3/signal-dominates-noise",
    place="ours",
    title="From which tau_0 on the signal of W dominates",
    statement="""Under Assumption 1 for lambda and without fresh noise the signal of W exceeds the noise at
        t_1 where tau_0 is at most mu^2/(8 lambda d), of order sqrt(log d)/d^2.""",
    derivation="""The signal at t_1 is (1 - 1/e) mu^2/(8 lambda) (Theorem 2 as repaired), the noise e^-1
        |W_0|, and |W_0| is tau_0 d but for a factor near 1: the ratio is (e - 1) mu^2/(8 lambda tau_0 d).""",
    quick={**ASSUMED, "power": 1.0, "N": 64, "runs": 2, "d": 16},
    sizes=({"d": 16}, {"d": 48}),
    seconds=0.2,
)
def signal_dominates(settings: Settings, seed: int) -> Finding:
    d = settings.d
    scale = Assumption1.of(settings, d)
    std = easy_pull(d) / (scale.weight_decay * d)
    W, _ = signal_over_noise(settings | {"tau_constant": std * scale.root_log}, d, seed)
    return Finding(
        conclusions=(Conclusion("|signal| / |noise| of W at t_1", ">=", 1.0, W),),
        numbers={"tau_0": std, "expected ratio": math.e - 1},
    )
