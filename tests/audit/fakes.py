"""Checks that the tests of the engine run: small, and each with one way to behave."""

import os

import torch

from attangent._core.random import generator
from attangent.audit import Claim, Conclusion, Figure, Finding, Hypothesis, Series, Settings


def steady(settings: Settings, seed: int) -> Finding:
    """A sum whose last digits depend on the order of its terms."""
    draws = torch.randn(settings.n, settings.n, generator=generator(seed, "steady"), dtype=torch.float32)
    total = (draws @ draws).sum().item()
    return Finding(
        conclusions=(Conclusion("total", "<=", settings.bound, total),),
        hypotheses=(Hypothesis("size", ">=", settings.needed, settings.n),),
        numbers={"total": total, "threads": torch.get_num_threads()},
        figures=(Figure("draws", "i", "value", (Series.of("row", range(settings.n), draws[0]),)),),
    )


def crashing(settings: Settings, seed: int) -> Finding:
    if seed == 1:
        raise RuntimeError("seed one is bad luck")
    return steady(settings, seed)


def dying(settings: Settings, seed: int) -> Finding:
    os._exit(7)


def forgetful(settings: Settings, seed: int) -> Finding:
    return None  # pyright: ignore[reportReturnType]


SETTINGS = Settings(n=300, bound=1e9, needed=1)


def make_claim(id: str, check=steady, settings: Settings = SETTINGS, seeds: int = 2) -> Claim:
    return Claim(
        id=id,
        place="Section 1",
        title=f"Title of {id}",
        statement="A statement.",
        check=check,
        quick=settings,
        full=settings | {"n": 400},
        seeds=seeds,
    )
