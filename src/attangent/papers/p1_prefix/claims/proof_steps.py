"""Steps of the proofs in Appendices H and I, and remarks on the setting, that other claims rest on."""

import math

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Settings, claim
from attangent.kernels import unit_data
from attangent.papers.common.descent import steps_to
from attangent.papers.common.sizes import no_growth
from attangent.papers.p1_prefix.claims.kernel_training import frozen, promised_steps
from attangent.papers.p1_prefix.claims.prefix_regression import PrefixRegression
from attangent.papers.p1_prefix.network import PrefixNetwork
from attangent.papers.p1_prefix.proofs import signs

_SIZES = {"n": 3, "d": 3, "sigma": 1.0, "init": "independent", "delta": 0.05}


@claim(
    "P1/theorem-3.2-steps",
    place="Section 3.3, Theorem 3.2; Appendix I.1, its proof",
    title="T does not depend on m but through m eta",
    quote="""T = Omega((m eta lambda)^-1 log(nd/eps)) ... We have |F(0) - Y|_F^2 <= nd as Lemma I.6.""",
    rests_on=("P1/lemma-i.6",),
    nature="proof step",
    plain="""A second reason why T of Theorem 3.2 is too small: the first loss is of order nmd, so T needs
        log m. Pairs of opposite signs repair it.""",
    failure=Failure(
        "P1/lemma-i.6", "T of Theorem 3.2 lacks log m", "in the limit of long prefixes, for every constant"
    ),
    proof=signs.steps_without_log_m,
    quick={**_SIZES, "rate": 1.0, "epsilon": 0.01, "lengths": [64, 512, 4096, 32768]},
    full={"lengths": [256, 2048, 16384, 131072]},
)
def steps_over_length(settings: Settings, seed: int) -> Finding:
    """The constant in front of (m eta lambda)^-1 log(nd/eps) that reaches eps does not depend on m."""
    problems = [PrefixRegression.draw(settings | {"m": m}, seed) for m in settings.lengths]
    first = [p.residual.square().sum().item() for p in problems]
    # log(|F(0) - Y|^2/eps) is what the exact rate has to remove; compare it with the printed log(nd/eps)
    needed = [math.log(loss / settings.epsilon) for loss in first]
    printed = math.log(settings.n * settings.d / settings.epsilon)
    ratios = [value / printed for value in needed]
    logs = [math.log(m) for m in settings.lengths]
    p = problems[0]
    constant = steps_to(frozen(p, settings), settings.epsilon) / promised_steps(p, settings)
    return Finding(
        hypotheses=problems[-1].conditions(settings),
        conclusions=(no_growth("log(|F(0) - Y|^2/eps) / log(nd/eps), over log m", logs, ratios),),
        numbers={
            **{
                f"|F(0) - Y|^2 / nd, m = {m}": loss / p.size
                for m, loss in zip(settings.lengths, first, strict=True)
            },
            "constant that T needs, shortest prefix": constant,
        },
        remark="The proof takes |F(0) - Y|^2 <= nd from Lemma I.6, which is false for independent signs.",
    )


@claim(
    "P1/lemma-h.9-sign",
    place="Appendix H.6, proof of Lemma H.9, part 2",
    title="The difference of the inverses of alpha",
    quote="""alpha_i(tau+1)^-1 - alpha_i(tau)^-1 = alpha_i(tau+1)^-1 alpha_i(tau)^-1 (alpha_i(tau+1) -
        alpha_i(tau))""",
    nature="proof step",
    plain="""A minus sign is lost: 1/b - 1/a is -(b - a)/(ab). The upper bound of part 1 then bounds part
        2 from the wrong side. Lemma H.9 fails anyway.""",
    failure=Failure(
        "P1/lemma-h.9-sign",
        "the proof of part 2 of Lemma H.9 falls; part 2 fails for another reason, too",
        "every step that changes alpha",
        root="a minus sign is lost",
    ),
    proof=signs.lost_sign,
    unconditional=True,
    quick={**_SIZES, "m": 64, "rate": 0.1, "sign": 1.0},
)
def inverse_difference(settings: Settings, seed: int) -> Finding:
    """1/alpha(1) - 1/alpha(0) = (alpha(1) - alpha(0)) / (alpha(0) alpha(1)) for the normaliser alpha of a
    step.
    """
    p = PrefixRegression.draw(settings, seed)
    moved = p.network.W - p.rate(settings.rate) * p.network.gradient(p.X, p.Y)
    before, after = (torch.exp(p.X @ W).sum(dim=1) for W in (p.network.W, moved))
    printed = settings.sign * (after - before) / (before * after)
    gap = ((1 / after - 1 / before - printed).abs() / printed.abs()).max().item()
    return Finding(
        conclusions=(Conclusion("relative distance of the two sides", "<=", 1e-6, gap),),
        remark="The two sides have opposite signs, so their distance is twice their size.",
    )


@claim(
    "P1/appendix-h-hoeffding",
    place="Appendix H, proofs of Lemmas H.2, H.4-H.7 and H.10",
    title="Hoeffding's inequality for signs at tau > 0",
    quote="""We apply Hoeffding inequality (Lemma D.4) to random variables a_r max_k beta_k,r(tau) for r
        in [m]""",
    rests_on=("P1/lemma-d.4",),
    nature="proof step",
    plain="""The proofs treat the signs as independent of the weights at every step. After one step they
        are not, so six proofs have a gap. We know no bound that fails for this reason; H.10 fails for
        another.""",
    failure=Failure(
        "P1/appendix-h-hoeffding",
        "a gap in the proofs of Lemmas H.2, H.4 to H.7 and H.10; we know no bound that fails for this reason "
        "(H.10 fails for another)",
        "n = d = 1, the first step",
        root="after a step the signs depend on the weights",
    ),
    proof=signs.dependent_signs,
    quick={**_SIZES, "m": 4096, "rate": 0.1, "steps": 1},
)
def dependence(settings: Settings, seed: int) -> Finding:
    """The signs a_r are independent of the weights W(tau) at every step tau."""
    p = PrefixRegression.draw(settings, seed)
    run = p.network.descend(p.X, p.Y, p.rate(settings.rate), settings.steps)
    move = (
        (run.final.W - p.network.W) * p.network.a
    ).T  # a_r (w_r(tau) - w_r(0)), with mean 0 if independent
    error = (move.std(dim=0) / math.sqrt(settings.m)).clamp(min=1e-300)
    largest_mean = (move.mean(dim=0).abs() / error).max().item()
    return Finding(
        conclusions=(
            Conclusion(
                "largest mean of a_r (w_r(tau) - w_r(0)), in standard errors", "<=", 4.5, largest_mean
            ),
        ),
        remark="Each step moves w_r along a_r times a vector that is the same for all r, and more.",
    )


@claim(
    "P1/footnote-2",
    place="Appendix E, footnote 2",
    title="The case without the signs a is similar",
    quote="Note that the proof of the case with a and without a are similar.",
    rests_on=("P1/lemma-h.8",),
    nature="remark",
    plain="""The footnote says that the proofs work without the signs a. Without them the first output is
        m sigma^2 x, of order m, and the analysis of Appendix I cannot start.""",
    failure=Failure(
        "P1/footnote-2",
        "the extension to attention without signs falls; the theorems have the signs",
        "in the limit of long prefixes",
        root="without signs the first output is of order m",
    ),
    proof=signs.without_signs,
    quick={**_SIZES, "n": 4, "lengths": [256, 1024, 4096, 16384], "draws": 16, "signs": False},
    full={"lengths": [1024, 4096, 16384, 65536]},
)
def no_signs(settings: Settings, seed: int) -> Finding:
    """Without the signs a, |F(0) - Y|_F = O(sqrt(nmd)), as with them (Lemma H.8)."""
    X, Y = unit_data(settings.n, settings.d, settings.d, seed)
    losses = [_first_loss(X, Y, m, settings, seed) for m in settings.lengths]
    output = _output(X, settings.lengths[-1], settings, seed)
    unit = settings.lengths[-1] * settings.sigma**2
    return Finding(
        conclusions=(
            Conclusion.of_trend("|F(0) - Y|_F without a, over m", "<=", 0.5, settings.lengths, losses),
        ),
        numbers={"|F(0)| / (m sigma^2 |x|), longest prefix": (output.norm() / (unit * X.norm())).item()},
    )


def _first_loss(X: Tensor, Y: Tensor, m: int, settings: Settings, seed: int) -> float:
    """Return the root mean square of |F(0) - Y|_F over draws of the prefix."""
    squares = [
        (_output(X, m, settings, 1000 * seed + draw) - Y).square().sum() for draw in range(settings.draws)
    ]
    return torch.stack(squares).mean().sqrt().item()


def _output(X: Tensor, m: int, settings: Settings, seed: int) -> Tensor:
    network = PrefixNetwork(settings.d, m, settings.sigma, "independent", seed)
    if settings.signs:
        return network.forward(X)
    return m * torch.softmax(X @ network.W, dim=1) @ network.W.T


@claim(
    "P1/equation-18",
    place="Appendix I.2, proof of Lemma I.3, Eq. (18)",
    title="The geometric sum of Eq. (18)",
    quote="eta sum_i (1 - m eta lambda/2)^i <= eta 4/(m lambda) (18) where this step follows from Fact D.2.",
    rests_on=("P1/fact-d.2",),
    nature="proof step",
    plain="""The sum is 2/(m lambda); printed is 4 eta/(m lambda), which is smaller for eta < 1/2, and
        Fact D.2 is cited outside its range. Lemma I.3 uses it, but its bound D is large enough without
        the eta.""",
    failure=Failure(
        "P1/equation-18",
        "the fourth step of the proof of Lemma I.3 falls; the lemma stands, since exp(20B) in D leaves room",
        "every eta < 1/2",
        root="a factor eta too many",
    ),
    proof=signs.geometric_sum,
    quick={"m": 1024, "rates": [1e-5, 1e-4, 1e-3], "extra": 1.0},
)
def geometric_sum(settings: Settings, seed: int) -> Finding:
    """eta sum_i (1 - m eta lambda/2)^i <= 4 eta/(m lambda) for the learning rates of the theorem."""
    lam = 0.1 + torch.rand(1, generator=generator(seed, "lambda"), dtype=torch.float64).item()
    ratios = []
    for eta in settings.rates:
        x = settings.m * eta * lam / 2
        total = eta * sum((1 - x) ** i for i in range(math.ceil(30 / x)))
        ratios.append(total / (4 * eta**settings.extra / (settings.m * lam)))
    return Finding(
        conclusions=(Conclusion("largest sum / printed bound", "<=", 1.0, max(ratios)),),
        remark="Without the eta on the right the bound holds with a factor of two to spare.",
    )
