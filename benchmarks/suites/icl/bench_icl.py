"""One-layer attention: the time each way of training needs to bring the gap below 1e-2.

To add a contestant: a function of a size that returns the callable to be timed, and a line in CONTESTANTS.
"""

from typing import Any

import torch
from torch import Tensor

from attangent.icl import Dictionary
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.one_layer.trainers import weight_rate_limit
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Work

SMALL = {"N": 8, "K": 24, "d": 12, "m": 5, "H": 16}
PAPER = {"N": 30, "K": 200, "d": 100, "m": 20, "H": 64}
TARGET = 1e-2
MOST_STEPS = 20_000


def start(size: Size, heads: int) -> OneLayerAttention:
    """The untrained model that every contestant of a size begins with."""
    sizes = {name: size[name] for name in ("K", "d", "m", "N")}
    dictionary = Dictionary.random(**sizes, tau=0.01, tokens="unit", seed=0, representation="independent")
    return OneLayerAttention(dictionary, heads, seed=0)


def training(model: OneLayerAttention, method: str, **options: Any) -> Work:
    """Trains from the same start each time; the answer is 1 where the gap came below the target."""
    Q, w = model.Q.clone(), model.w.clone()

    def work() -> Tensor:
        model.set_parameters(Q, w)
        result = model.fit(method, **options)
        return torch.tensor([float(result.gap <= TARGET)])

    return work


def solve(size: Size) -> Work:
    return training(start(size, size["H"]), "solve")


def varpro(size: Size) -> Work:
    """With four fifths of N heads, where `solve` cannot."""
    return training(start(size, size["N"] * 4 // 5), "varpro", target=TARGET, steps=MOST_STEPS)


def gd(size: Size) -> Work:
    """Rates tuned for these sizes: the largest that are stable, to within a factor of two."""
    model = start(size, size["H"])
    rate_w = weight_rate_limit(model) / 2
    return training(model, "gd", target=TARGET, steps=MOST_STEPS, rate_w=rate_w, rate_Q=20 * rate_w)


def adam_on_the_population(size: Size) -> Work:
    return training(start(size, size["H"]), "adam", target=TARGET, steps=MOST_STEPS)


def adam_on_prompts(size: Size) -> Work:
    """The paper's way, at thirty times its rate: at a hundred times it hovers above the target."""
    model = start(size, size["H"])
    return training(model, "adam", target=TARGET, steps=MOST_STEPS, rate=3e-3, prompts=10_000, batch=256)


CONTESTANTS = [
    Contestant("adam, sampled prompts", adam_on_prompts),
    Contestant("adam, population", adam_on_the_population),
    Contestant("gd", gd),
    Contestant("varpro, H < N", varpro),
    Contestant("solve", solve),
]

BENCHMARKS = [
    Benchmark(
        name="icl",
        about="Training one layer of H heads until the gap to the least loss is below 1e-2, from logits of "
        "standard deviation 2 on unit tokens, tau 0.01, float64. `varpro` has 4N/5 heads. Adam's rate is "
        "1e-2 on the population loss and 3e-3 on 10,000 prompts in batches of 256.",
        sizes=[SMALL, PAPER],
        contestants=CONTESTANTS,
        baseline="adam, sampled prompts",
        reference=lambda size: torch.ones(1),
        goals=[Goal("adam, population", against="adam, sampled prompts", size=PAPER, at_most=1.0)],
    )
]
