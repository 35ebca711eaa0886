"""Figure 4: how many heads one layer needs, and how many are too many."""

import math
from itertools import pairwise

import torch

from attangent.audit import Conclusion, Figure, Finding, Series, Settings, claim
from attangent.icl import Dictionary
from attangent.papers.common.figures import plot
from attangent.papers.p4_in_context.claims.dictionary_setting import PAPER_SIZE, draw_dictionary, model
from attangent.papers.p4_in_context.claims.figures_one_layer import setting_of_section_4
from attangent.papers.p4_in_context.one_layer.heads import logit_scale
from attangent.papers.p4_in_context.one_layer.training import TrainingRun


@claim(
    "P4/figure-4",
    nature="experiment",
    plain="""Few heads descend more slowly but do not stop; divergence with far too many heads does not
        show within 100 steps.""",
    place="Section 4, Figure 4",
    title="The number of heads in one layer",
    quote="""setting H too large (H = 400) leads to instability and divergence of the loss. ... when H < N
        = 30, the loss stopped descending even when it is far from the minimal value. ... the loss keeps
        descending when H = 30""",
    statement="""Trained by Adam on the population loss with Gaussian tokens and Q, one layer with H < N heads
        ends farther from the least loss than one with H >= N, and descends less at the end; with far too many
        heads (400 for N = 30) the loss diverges.""",
    quick={
        "K": 24,
        "d": 40,
        "m": 6,
        "N": 10,
        "tau": 0.01,
        "few": [3, 5],
        "enough": [10, 20],
        "too_many": 133,
        "steps": 1000,
        "crowded_steps": 100,
        "rate": 1e-3,
    },
    full={
        **PAPER_SIZE,
        "few": [8, 16],
        "enough": [30],
        "too_many": 400,
        "steps": 4000,
        "crowded_steps": 1500,
        "rate": 1e-4,
    },
    seeds=1,
    seconds=5.0,
)
def heads_in_one_layer(settings: Settings, seed: int) -> Finding:
    dictionary = draw_dictionary(settings | {"tokens": "gaussian"}, seed)
    runs = {H: _descend(dictionary, settings, seed, H) for H in (*settings.few, *settings.enough)}
    ends = {H: _end(run) for H, run in runs.items()}
    late = {H: _late_fall(run) for H, run in runs.items()}
    too_many = settings.too_many
    crowded = _descend(dictionary, settings | {"steps": settings.crowded_steps}, seed, too_many)
    return Finding(
        conclusions=(
            *_few_heads_lines(settings, ends, late),
            _crowded_line(too_many, crowded),
            _stopped_line(settings, late),
        ),
        **setting_of_section_4(
            settings,
            f"{settings.steps} steps ({settings.crowded_steps} with H = {too_many}), where the paper does "
            "not say how many",
        ),
        numbers={
            **{f"gap at the end, H={H}": gap for H, gap in ends.items()},
            **{f"gap at the end / at two thirds, H={H}": fall for H, fall in late.items()},
            f"largest rise of the gap in a reading, H={too_many}": _largest_rise(crowded),
        },
        figures=(_heads_figure({**runs, too_many: crowded}),),
        remark="That fewer heads than N descend more slowly does not mean that they cannot get "
        "there: see P4/multi-head.",
    )


def _few_heads_lines(
    settings: Settings, ends: dict[int, float], late: dict[int, float]
) -> tuple[Conclusion, ...]:
    """Fewer than N heads end higher, and fall less at the end, than N or more."""
    largest = max(settings.enough)
    part = "few heads"
    later = late[largest] - min(late[H] for H in settings.few)
    gaps = "largest gap with H >= N / least with H < N"
    falls = f"gap at the end / at two thirds with H = {largest}, less the least with H < N"
    return (
        Conclusion(gaps, "<=", 1.0, _contrast(ends, settings), part=part),
        Conclusion(falls, "<=", 0.0, later, part=part),
    )


def _crowded_line(too_many: int, crowded: TrainingRun) -> Conclusion:
    name = f"gap at the end / at the start with H = {too_many}"
    return Conclusion(name, ">=", 1.0, _end(crowded) / crowded.gaps[0].item(), part="too many heads")


def _stopped_line(settings: Settings, late: dict[int, float]) -> Conclusion:
    """That the loss with few heads has stopped; 0.95 for it is ours."""
    name = "H < N: least of gap at the end / at two thirds"
    return Conclusion(name, ">=", 0.95, min(late[H] for H in settings.few), threshold="ours")


def _descend(dictionary: Dictionary, settings: Settings, seed: int, H: int) -> TrainingRun:
    start = model(settings | {"heads": H, "logit_std": logit_scale(dictionary)}, seed, dictionary)
    every = max(1, settings.steps // 60)
    return start.fit("adam", steps=settings.steps, rate=settings.rate, record_every=every, quiet=True)


def _end(run: TrainingRun) -> float:
    return math.inf if run.diverged else run.gap


def _largest_rise(run: TrainingRun) -> float:
    """The largest ratio of one reading of the gap to the one before; above 1 if the loss is unstable."""
    return max((b / a).item() for a, b in pairwise(run.gaps))


def _late_fall(run: TrainingRun) -> float:
    return math.inf if run.diverged else (run.gaps[-1] / run.gaps[len(run.gaps) * 2 // 3]).item()


def _contrast(ends: dict[int, float], settings: Settings) -> float:
    return max(ends[H] for H in settings.enough) / min(ends[H] for H in settings.few)


def _heads_figure(runs: dict[int, TrainingRun]) -> Figure:
    def curve(H: int, run: TrainingRun) -> Series:
        shown = torch.arange(0, len(run.gaps), max(1, len(run.gaps) // 100))
        finite = shown[run.gaps[shown].isfinite()]
        return Series.of(f"H={H}", run.steps[finite], run.gaps[finite])

    curves = tuple(curve(H, run) for H, run in runs.items())
    return plot("Figure 4", ("step", "gap"), *curves, log="y")
