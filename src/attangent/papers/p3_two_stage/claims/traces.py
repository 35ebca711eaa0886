"""Corollary 1: the traces of W and V when their factors W_K and W_Q are trained."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Settings, claim
from attangent.papers.p3_two_stage.claims import proofs_of_stages
from attangent.papers.p3_two_stage.claims.first_stage import ASSUMED, assumption_1
from attangent.papers.p3_two_stage.claims.signal_and_noise import rate_ratio
from attangent.papers.p3_two_stage.claims.two_stage_setting import Assumption1
from attangent.papers.p3_two_stage.theory.attention import ReluAttention, ReluWeights
from attangent.papers.p3_two_stage.theory.data import TwoStagePrompts

SETTING = {**ASSUMED, "u": 0.4, "r": 0.004, "power": 1.5, "d": 16, "N": 32, "runs": 8, "decay_times": 3.0}


@claim(
    "P3/corollary-1",
    plain="""Printed: the traces of W and V grow and then change order. True: both decay by (1 - eta
        lambda)^(2t), twice the printed decay, and the start decides which is larger.""",
    failure=Failure(
        cause="P3/corollary-1",
        consequence="Corollary 1 falls",
        first_size="d = 1, one step",
        root="the decay of two factors is counted once",
    ),
    proof=proofs_of_stages.corollary_1,
    ours=("t_2 run at the rate of stage 1",),
    place="Appendix B, Corollary 1 (Appendix H)",
    title="The traces of W and V over the stages",
    quote="Tr(W_{t_1}) = (1 - eta_1 lambda + 2 p_1 k_1 eta_1 / L)^{t_1} Tr(W_0)",
    quick={**SETTING, "dimensions": [16]},
    full={"d": 32, "dimensions": [32], "runs": 40, "decay_times": 20.0},
    seconds=0.6,
    rests_on=("P3/theorem-2", "P3/theorem-3", "P3/theorem-4"),
)
def traces(settings: Settings, seed: int) -> Finding:
    """Under Assumption 1, with W = W_K'W_Q trained by its factors as in Appendix H: (a) Tr W_(t1) = (1 -
    eta_1 lambda + 2 p_1 k_1 eta_1 / L)^(t_1) Tr W_0, likewise V, and Tr W > Tr V at t_1; (b) Tr W < Tr V at
    the end of stage 2.
    """
    run = FactorRun(settings, seed)
    W, V = run.parts
    runs = settings.runs
    slow = rate_ratio(settings, settings.d)
    larger_W = int((W.traces[1] > V.traces[1]).sum())
    smaller_W = int((W.traces[2] < V.traces[2]).sum())
    growth = "(a) log10 of printed / measured Tr {} at t_1, median of runs"
    at_t_1 = f"(a) runs of {runs} in which Tr W > Tr V at t_1"
    at_end = f"(b) runs of {runs} in which Tr W < Tr V at the end"
    return Finding(
        hypotheses=(
            *assumption_1(settings),
            Hypothesis("largest |W_K - W_Q| at the start (W_K = W_Q in Appendix H)", "<=", 0.0, run.apart),
            Hypothesis("eta_2 / eta_1 (lambda^2 eps^2 r in the paper)", "<=", slow, 1.0, part="(b) order"),
        ),
        conclusions=(
            *(
                Conclusion(growth.format(name), "<=", math.log10(1.1), part.misprint, part="(a) growth")
                for name, part in (("W", W), ("V", V))
            ),
            Conclusion(at_t_1, ">=", runs, larger_W, part="(a) order"),
            Conclusion(at_end, ">=", runs, smaller_W, part="(b) order"),
        ),
        numbers={
            "Tr W at t_1 / at the start, median of runs": (W.traces[1] / W.traces[0]).median().item(),
            "Tr V at t_1 / at the start, median of runs": (V.traces[1] / V.traces[0]).median().item(),
            "(1 - eta_1 lambda)^(2 t_1)": W.decay,
        },
        remark="Both traces shrink by (1 - eta lambda)^(2t), the decay of two factors: the gradient is of "
        "order 1/d, small compared with lambda. The proof counts the decay once, bounds A by an inequality "
        "and continues with an equality, and takes Tr V <= |V| for a lower bound on Tr V. The start decides "
        "which trace is larger. Appendix H also assumes that A is symmetric and diagonal in the frame of "
        "the factors, which holds exactly at d = 1 only; (b) is run at the rate of stage 1, since the "
        "printed eta_2 is out of reach.",
    )


@dataclass(frozen=True)
class TracePart:
    """Traces (runs,) at the start, at t_1 and at the end; the printed trace at t_1; our bound. `size` is
    (|W_K|^2 + |W_Q|^2)/2 at the start, `steepest` the largest spectral norm of a gradient up to t_1.
    """

    traces: tuple[Tensor, Tensor, Tensor]
    printed: Tensor
    size: Tensor
    steepest: Tensor
    decay: float
    rate: float
    steps: int

    @property
    def allowed(self) -> Tensor:
        """((c + eta g)^(2t) - c^(2t)) S_0 with c = 1 - eta lambda: how far Tr may be from c^(2t) Tr_0."""
        c = self.decay ** (1 / (2 * self.steps))
        return ((c + self.rate * self.steepest) ** (2 * self.steps) - self.decay) * self.size

    @property
    def misprint(self) -> float:
        """|log10 of the printed trace at t_1 over the measured one|, median over runs."""
        return (self.printed / self.traces[1]).abs().log10().abs().median().item()

    @property
    def distance(self) -> Tensor:
        return (self.traces[1] - self.decay * self.traces[0]).abs()


class FactorRun:
    """W_K <- (1 - eta lambda) W_K - eta W_Q G', W_Q <- (1 - eta lambda) W_Q - eta W_K G, without noise."""

    def __init__(self, settings: Settings, seed: int):
        self.settings = settings
        self.scale = Assumption1.of(settings, settings.d)
        self.prompts = self.scale.data().sample(settings.N, runs=settings.runs, seed=seed)
        self.model = ReluAttention(settings.d, runs=settings.runs)
        self.factors = [_start(settings, self.scale, seed, name) for name in ("W", "V")]
        self.apart = max((keys - queries).abs().max().item() for keys, queries in self.factors)
        self.steepest = [torch.zeros(settings.runs, dtype=torch.float64) for _ in "WV"]
        begin = self._traces()
        sizes = [_size(pair) for pair in self.factors]
        steps = self.scale.first_steps(settings.rate)
        self._walk(steps)
        middle = self._traces()
        steepest = list(self.steepest)
        printed = self._printed(begin, steps)
        self._walk(round(settings.decay_times * steps))
        end = self._traces()
        decay = (1 - settings.rate * self.scale.weight_decay) ** (2 * steps)
        self.parts = [
            TracePart(
                (begin[i], middle[i], end[i]), printed[i], sizes[i], steepest[i], decay, settings.rate, steps
            )
            for i in (0, 1)
        ]

    def _weights(self) -> ReluWeights:
        W, V = (keys.mT @ queries for keys, queries in self.factors)
        return ReluWeights(W, V, torch.zeros(self.settings.runs, dtype=torch.float64))

    def _traces(self) -> list[Tensor]:
        return [matrices[:, 0].diagonal(dim1=-2, dim2=-1).sum(-1) for matrices in self._weights()[:2]]

    def _walk(self, steps: int) -> None:
        rate = self.settings.rate
        shrink = 1 - self.settings.rate * self.scale.weight_decay
        for _ in range(steps):
            gradient = self.model.gradient(self.prompts, self._weights())
            for i, (keys, queries) in enumerate(self.factors):
                G = gradient[i]
                self.steepest[i] = torch.maximum(self.steepest[i], torch.linalg.matrix_norm(G[:, 0], 2))
                self.factors[i] = (shrink * keys - rate * queries @ G.mT, shrink * queries - rate * keys @ G)

    def _printed(self, begin: list[Tensor], steps: int) -> list[Tensor]:
        f = self.model.f(self.prompts, self._weights())
        rates = [_printed_growth(x, f, self.prompts) for x in (self.prompts.x1, self.prompts.x2)]
        rate = self.settings.rate
        decay = self.scale.weight_decay
        return [
            (1 - rate * decay + rate * growth) ** steps * at for growth, at in zip(rates, begin, strict=True)
        ]


def _start(settings: Settings, scale: Assumption1, seed: int, name: str) -> tuple[Tensor, Tensor]:
    """Return W_K = W_Q with entries that give those of W the standard deviation tau_0 off the diagonal."""
    std = math.sqrt(scale.init_std) / settings.d**0.25
    rng = generator(seed, f"factors of {name}")
    drawn = std * torch.randn(settings.runs, 1, settings.d, settings.d, generator=rng, dtype=torch.float64)
    return drawn, drawn


def _size(pair: tuple[Tensor, Tensor]) -> Tensor:
    keys, queries = (factor.square().sum((-1, -2, -3)) for factor in pair)
    return (keys + queries) / 2


def _printed_growth(x: Tensor, f: Tensor, prompts: TwoStagePrompts) -> Tensor:
    """2 p k / L, where p is the fraction of negative derivatives, those of prompts with y_L = +1, and k = max
    |x|^2 times their mean of |l'| times the number of tokens with x_i'x_L >= 0.
    """
    similar = ((x[..., :-1, :] @ x[..., -1, :, None])[..., 0] >= 0).sum(-1).double()
    negative = (prompts.answers > 0).double()
    slope = torch.sigmoid(-prompts.answers * f)
    k = x.square().sum(-1).amax((-1, -2)) * (slope * similar * negative).sum(-1) / negative.sum(-1)
    return 2 * negative.mean(-1) * k / prompts.L


@claim(
    "P3/corollary-1-repaired",
    plain="Each trace decays by (1 - eta lambda)^(2t) up to a bound by the gradient.",
    sharp="not known",
    title="The traces of W and V when their factors are trained",
    derivation="""With c = 1 - eta lambda and gradient G, W_(t+1) = (cW_K - eta W_Q G')'(cW_Q - eta W_K G) =
        c^2 W - eta c (W_K'W_K G + G W_Q'W_Q) + eta^2 G W_Q'W_K G. The traces of the last terms are at
        most (2 eta c g + eta^2 g^2) S_t, and |cW_K - eta W_Q G'| <= c|W_K| + eta g|W_Q| gives S_(t+1) <=
        (c + eta g)^2 S_t. The claim follows by induction.""",
    quick=SETTING,
    sizes=({"d": 8}, {"d": 16}),
)
def traces_decay(settings: Settings, seed: int) -> Finding:
    """With factors trained at the rate eta with decay lambda and without noise, |Tr W_t - (1 - eta
    lambda)^(2t) Tr W_0| <= ((1 - eta lambda + eta g)^(2t) - (1 - eta lambda)^(2t)) S_0, likewise V. g is the
    largest spectral norm of a gradient and S_0 = (|W_K|^2 + |W_Q|^2)/2 at the start.
    """
    parts = FactorRun(settings, seed).parts
    largest = [(part.distance / part.allowed).max().item() for part in parts]
    return Finding(
        conclusions=tuple(
            Conclusion(f"largest |Tr {name} - decay| / bound", "<=", 1.0, ratio)
            for name, ratio in zip("WV", largest, strict=True)
        ),
        numbers={"Tr W at t_1 / at the start": (parts[0].traces[1] / parts[0].traces[0]).median().item()},
    )
