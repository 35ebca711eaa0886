"""Repaired forms of Theorems 2, 3 and 4 and of Corollary 1: what training does under Assumption 1."""

import math

from attangent._core.random import generator
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding
from attangent.audit.registry import claim
from attangent.papers.p3_two_stage.claims.easy_part_kept import second_stage
from attangent.papers.p3_two_stage.claims.elementary import ASSUMED
from attangent.papers.p3_two_stage.claims.traces import SETTING as TRACES
from attangent.papers.p3_two_stage.claims.traces import FactorRun
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1, easy_pull
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, Variant, Weights
from attangent.papers.p3_two_stage.theory.constructions import bias_solution, paper_solution, signed_solution
from attangent.papers.p3_two_stage.theory.data import TwoStageData
from attangent.papers.p3_two_stage.theory.floor import q_loss_bounds
from attangent.papers.p3_two_stage.theory.search import q_losses
from attangent.papers.p3_two_stage.theory.training import ConstantRate, Moment, NoisySGD, train


@claim(
    "P3/theorem-2-repaired",
    repairs="P3/theorem-2",
    place="ours",
    title="How much of the easy part stage 1 learns, and from which lambda on it is learned",
    statement="""Under Assumption 1 and for many and long prompts the signal of W at t_1 is (1 - (1 -
        eta_1 lambda)^(t_1)) mu^2/(8 lambda) w* w*' with mu = (1 + sqrt(2/pi))/sqrt(d): of order
        sqrt(log d)/d. Within t_1 steps the easy part is learned where lambda is at most of order
        1/(d^2 log(1/eps_(W,1))).""",
    derivation="""While answers are near 0 every slope is -1/2. (x, y) and (-x, -y) have the same law and y
        x is the same in both, so that E[y x 1(x'W x_L > 0)] = mu w*/2; averaged over the query the gradient
        is -(1/2)(1/2)(mu/2) mu w* w*' = -mu^2/8 w* w*'. Summing it under decay gives the signal. It reaches
        d log(1/eps), the norm of the paper's W*, only if mu^2/(8 lambda) does.""",
    quick={**ASSUMED, "N": 256, "runs": 1, "L": 129, "learning_rate": 20.0, "d": 8},
    sizes=({"d": 12}, {"d": 24}),
    seconds=0.9,
)
def easy_part_after_stage_one(settings: Settings, seed: int) -> Finding:
    scale = Assumption1.of(settings, settings.d)
    data = TwoStageData(settings.d, settings.L, u=settings.u, r=settings.r)
    weak = easy_pull(settings.d) / (4 * settings.d * math.log(1 / scale.epsilon(scale.easy)))
    strong, learned = (
        _stage_one(settings, data, rate, decay, scale.init_std, seed)
        for rate, decay in ((settings.rate, scale.weight_decay), (settings.learning_rate, weak))
    )
    decay = settings.rate * scale.weight_decay
    expected = (
        (1 - (1 - decay) ** scale.first_steps(settings.rate)) * easy_pull(settings.d) / scale.weight_decay
    )
    along = (strong.signal.W[:, 0] @ data.w_star @ data.w_star).mean().item()
    return Finding(
        conclusions=(
            Conclusion("distance of w*'W w* / expected to 1", "<=", 0.1, abs(along / expected - 1)),
            Conclusion(
                "K1 at t_1 / log 2, lambda of Assumption 1",
                ">=",
                0.8,
                strong.losses.K1.mean().item() / math.log(2),
            ),
            Conclusion(
                "K1 at t_1 / log 2, lambda = mu^2 / (32 d log(1/eps))",
                "<=",
                0.5,
                learned.losses.K1.mean().item() / math.log(2),
            ),
        ),
        numbers={"w*'W w*": along, "expected": expected, "the small lambda": weak},
    )


def _stage_one(
    settings: Settings, data: TwoStageData, rate: float, decay: float, std: float, seed: int
) -> Moment:
    model = ReluAttention(settings.d, std=std, runs=settings.runs, seed=seed)
    steps = max(1, round(1 / (rate * decay)))
    config = NoisySGD((ConstantRate(rate, steps),), decay, std, record_every=10**9)
    return train(model, data.sample(settings.N, runs=settings.runs, seed=seed), config, seed=seed).ends[0]


@claim(
    "P3/theorem-3-repaired",
    repairs="P3/theorem-3",
    place="ours",
    title="The floor of the hard part, and what removes it",
    statement="""For P(y=+1) = p <= 1/2 every V has K2 >= p log 2, and the least K2 is within (1-p) log 2
        ((1+p)/2)^(L-1) of it. With an output bias, or with a second head of value -1, K2 goes to 0 as L grows
        for weights of norm c/r^2, and so it does for p > 1/2.""",
    derivation="""For a query q let a = z'Vq, b = zeta'Vq. E g = (1 - 1/L)(p relu(a) - (1-p)/2 (relu(a+b) +
        relu(a-b))) <= (1 - 1/L)(2p - 1) relu(a) <= 0 by convexity, so that the loss on the query z is at
        least log 2. V = c zeta zeta'/r^4 answers z +- zeta by -c n_own/L and z by 0; a bias beta of a
        quarter of c(1-p)/2 then puts all answers right unless a token is missing from the context.""",
    quick={"L": 129, "p": 0.5, "fresh": 20_000, "unbalanced": 0.6},
    sizes=({"L": 65}, {"L": 1025}),
    seconds=0.2,
)
def floor_and_ways_below(settings: Settings, seed: int) -> Finding:
    data = TwoStageData(4, settings.L, u=1.0, r=0.5, p=settings.p)
    unbalanced = TwoStageData(4, settings.L, u=1.0, r=0.5, p=settings.unbalanced)
    bounds = q_loss_bounds(settings.p, settings.L)
    best = _fresh_loss(settings, data, paper_solution(data), "paper", seed)
    below = {
        "an output bias": _fresh_loss(settings, data, bias_solution(data), "bias", seed),
        "a second head": _fresh_loss(settings, data, signed_solution(data), "signed", seed),
        f"p = {settings.unbalanced:g}": _fresh_loss(
            settings, unbalanced, paper_solution(unbalanced), "paper", seed
        ),
    }
    return Finding(
        conclusions=(
            Conclusion(
                "best V by hand: distance of K2 to the bounds",
                "<=",
                0.01,
                _outside(best, bounds.lower, bounds.upper),
            ),
            *(
                Conclusion(f"K2 / floor with {name}", "<=", 0.5, loss / bounds.lower)
                for name, loss in below.items()
            ),
        ),
        numbers={"K2 of the best V by hand": best, "floor": bounds.lower, **below},
    )


def _fresh_loss(
    settings: Settings, data: TwoStageData, weights: Weights, variant: Variant, seed: int
) -> float:
    drawn = data.sample_q(settings.fresh, seed=generator(seed, "fresh prompts"))
    return q_losses(weights, data, variant, drawn).mean().item()


def _outside(value: float, low: float, high: float) -> float:
    return max(low - value, value - high, 0.0)


@claim(
    "P3/theorem-4-repaired",
    repairs="P3/theorem-4",
    place="ours",
    title="How far the easy part moves in stage 2",
    statement="""Under Assumption 1 stage 2 moves the signal of W by (1 - eta_1 lambda)^(t_1) mu^2/(8
        lambda) along w* w*', of order sqrt(log d)/d, whatever L: the easy part is preserved up to that, not
        up to eps_(V,1)^2.""",
    derivation="""The gradient stays -mu^2/8 w* w*' while answers are small (see Theorem 2 as repaired), and
        the signal tends to mu^2/(8 lambda) w* w*', of which stage 1 has made the share 1 - (1 - eta_1
        lambda)^(t_1), about 1 - 1/e. Stage 2 lasts many decay times and makes up the rest. eps_(V,1)^2 is
        of order d/L and takes no part in it.""",
    quick={**ASSUMED, "u": 0.4, "N": 256, "runs": 2, "second_rate": 0.5, "decay_times": 6.0, "d": 8},
    sizes=({"d": 12, "power": 2.0}, {"d": 16, "power": 1.5}),
    seconds=0.4,
)
def easy_part_moves(settings: Settings, seed: int) -> Finding:
    found = second_stage(settings, settings.d, seed)
    return Finding(
        conclusions=(
            Conclusion(
                "distance of the move along w* / expected to 1",
                "<=",
                0.15,
                abs(found.along / found.expected - 1),
            ),
            Conclusion("whole move / expected", "<=", 1.5, found.moved / found.expected),
        ),
        numbers={"move": found.moved, "expected": found.expected},
    )


@claim(
    "P3/corollary-1-repaired",
    repairs="P3/corollary-1",
    place="ours",
    title="The traces of W and V with factors trained",
    statement="""With factors trained at the rate eta with decay lambda and without noise, |Tr W_t - (1 -
        eta lambda)^(2t) Tr W_0| <= ((1 - eta lambda + eta g)^(2t) - (1 - eta lambda)^(2t)) S_0, where g is
        the largest spectral norm of a gradient and S_0 = (|W_K|^2 + |W_Q|^2)/2 at the start; likewise V.""",
    derivation="""With c = 1 - eta lambda and gradient G, W_(t+1) = (cW_K - eta W_Q G')'(cW_Q - eta W_K G) =
        c^2 W - eta c (W_K'W_K G + G W_Q'W_Q) + eta^2 G W_Q'W_K G. The traces of the last terms are at most
        (2 eta c g + eta^2 g^2) S_t, and |cW_K - eta W_Q G'| <= c|W_K| + eta g|W_Q| gives S_(t+1) <= (c +
        eta g)^2 S_t. The claim follows by induction.""",
    quick=TRACES,
    sizes=({"d": 8}, {"d": 16}),
    seconds=0.3,
)
def traces_decay(settings: Settings, seed: int) -> Finding:
    parts = FactorRun(settings, seed).parts
    return Finding(
        conclusions=tuple(
            Conclusion(
                f"largest |Tr {name} - decayed| / bound",
                "<=",
                1.0,
                (part.strayed / part.allowed).max().item(),
            )
            for name, part in zip("WV", parts, strict=True)
        ),
        numbers={"Tr W at t_1 / at the start": (parts[0].traces[1] / parts[0].traces[0]).median().item()},
    )
