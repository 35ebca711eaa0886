"""Figures 2b and 5: the standard transformer of four layers; Figure 4: too few and too many heads."""

import math
from itertools import pairwise

import torch

from attangent.audit import Conclusion, Figure, Finding, Series, Settings, claim
from attangent.icl import OUT_OF_DOMAIN, Dictionary, RidgeLimit
from attangent.papers.common.figures import plot
from attangent.papers.p4_in_context.claims.dictionary_setting import (
    PAPER_SIZE,
    alike_lines,
    curves_figure,
    draw_dictionary,
    fall_lines,
    model,
)
from attangent.papers.p4_in_context.claims.figures_one_layer import setting_of_section_4
from attangent.papers.p4_in_context.one_layer.training import TrainingRun, logit_scale
from attangent.papers.p4_in_context.transformer import (
    InContextTransformer,
    TransformerConfig,
    TransformerTrainer,
    TransformerTraining,
)

_MODEL = {"d_model": 32, "d_ff": 64, "heads": 4}
_TRAINING = {"rate": 2e-3, "batch": 64, "prompts": 10_000, "tests": 200, "steps": 160, "record_every": 20}
_SMALL = {"K": 8, "d": 6, "m": 2, "N": 6, "tau": 0.01, **_MODEL, **_TRAINING}
_LARGER_MODEL = {"d_model": 128, "d_ff": 256, "heads": 8}
_LARGER = {"K": 40, "d": 20, "m": 4, "N": 10, **_LARGER_MODEL, "rate": 5e-4, "steps": 200, "record_every": 20}
"""Half the paper's width and a fifth of its dictionary: the paper's own sizes take hours on a CPU."""


@claim(
    "P4/figure-2b",
    plain="Three losses fall in a small transformer of several layers; out of domain follows less closely.",
    place="Section 4, Figure 2b",
    title="Four layers: training and inference losses fall together",
    quote="for both 1-layer and 4-layer transformers, the three curves have the same descending trend",
    quick=_SMALL,
    full=_LARGER,
    seeds=1,
    seconds=4.0,
)
def losses_fall_together(settings: Settings, seed: int) -> Finding:
    """For a standard transformer of four layers the training loss and the distances (1/K)|yhat - y*|^2
    in-domain and out-of-domain have the same descending trend, the last above the second.
    """
    dictionary = draw_dictionary(settings, seed)
    course = _train(dictionary, settings, seed)
    training = {"training loss": course.losses}
    inference = course.inference
    losses = training | {f"{name} loss": values for name, values in inference.items()}
    curves = training | {f"inference, {name}": values for name, values in inference.items()}
    above = (inference["out-of-domain"][-1] / inference["in-domain"][-1]).item()
    return Finding(
        conclusions=(
            *fall_lines(losses),
            Conclusion("out-of-domain / in-domain loss at the end", ">=", 1.0, above),
            *alike_lines("in-domain loss", losses, least_correlation=0.8, largest_fall=0.2),
        ),
        smaller=_stand_in(settings),
        numbers={
            "training loss": course.losses[-1].item(),
            "L*": RidgeLimit(dictionary).least_loss,
            **{name: values[-1].item() for name, values in inference.items()},
        },
        figures=(curves_figure("Figure 2b", course.steps, curves),),
        remark="One layer is linear in the labels, so that its out-of-domain loss is a fixed multiple of its "
        "gap at most; a deep transformer is not, and the out-of-domain curve falls less far than the others.",
    )


@claim(
    "P4/figure-5",
    plain="""With the same work, 4 heads end at a lower loss than 32 in a much smaller transformer after
        few steps. The paper's size was not run.""",
    place="Section 4, Figure 5",
    title="The number of heads in four layers at a fixed amount of work",
    quote="""the losses converge faster with smaller H (here the final training loss is the smallest when
        H = 4)""",
    quick={**_SMALL, "few": 4, "many": 32, "steps": 25, "pairs": 10, "batch": 32, "record_every": 50},
    full={**_LARGER, "steps": 30, "pairs": 10, "record_every": 30},
    seeds=1,
    seconds=8.0,
)
def heads_at_fixed_work(settings: Settings, seed: int) -> Finding:
    """Within the same time, a transformer of four layers with 4 heads reaches a lower loss than one with 32:
    more heads take fewer steps and descend more slowly, and H < N does not hinder convergence.
    """
    pairs = [_pair(settings, 1000 * seed + i) for i in range(settings.pairs)]
    logs = torch.tensor([math.log10(few / many) for few, many in pairs], dtype=torch.float64)
    mean = logs.mean().item()
    error = (logs.std() / math.sqrt(len(logs))).item()
    work = _steps_for_the_same_work(settings, settings.many) / settings.steps
    interval = (mean - TWO_SIDED * error, mean + TWO_SIDED * error)
    compared = f"loss with {settings.few} heads / with {settings.many}, mean of {len(pairs)} pairs"
    return Finding(
        conclusions=(
            Conclusion(f"steps with {settings.many} heads / with {settings.few}", "<=", 1.0, work),
            Conclusion(f"log10 of {compared}", "<=", 0.0, mean, log10=True, interval=interval),
        ),
        smaller=_stand_in(settings),
        numbers={
            "mean of log10 ratios": mean,
            "standard error": error,
            f"pairs in which {settings.few} heads end lower": float((logs < 0).sum()),
        },
        remark="Pairs share their dictionary, prompts and test prompts. The interval is the mean and "
        f"{TWO_SIDED} standard errors either side. Time is counted in operations, so that the finding does "
        "not depend on the machine.",
    )


TWO_SIDED = 2.26
"""The 97.5 % quantile of Student's t with nine degrees of freedom: pairs are ten."""


def _pair(settings: Settings, seed: int) -> tuple[float, float]:
    """The in-domain losses with few and with many heads after the same amount of work."""
    dictionary = draw_dictionary(settings, seed)

    def loss(heads: int) -> float:
        sized = settings | {"heads": heads, "steps": _steps_for_the_same_work(settings, heads)}
        return _train(dictionary, sized, seed).inference["in-domain"][-1].item()

    return loss(settings.few), loss(settings.many)


def _steps_for_the_same_work(settings: Settings, H: int) -> int:
    """As many steps as cost what `steps` steps cost with few heads."""
    least, this = (
        TransformerConfig(4, settings.d_model, settings.d_ff, heads).operations(settings.K, settings.N)
        for heads in (settings.few, H)
    )
    return max(1, round(settings.steps * least / this))


def _train(dictionary: Dictionary, settings: Settings, seed: int) -> TransformerTraining:
    config = TransformerConfig(4, settings.d_model, settings.d_ff, settings.heads)
    transformer = InContextTransformer(dictionary.d, dictionary.m, config, seed)
    options = {name: settings[name] for name in ("steps", "rate", "batch", "prompts", "record_every")}
    tests = {
        "in-domain": dictionary.prompts(settings.tests, seed=seed + 1).shown,
        "out-of-domain": dictionary.prompts(settings.tests, OUT_OF_DOMAIN, seed + 2).shown,
    }
    return TransformerTrainer(**options, seed=seed).train(transformer, dictionary, tests, quiet=True)


def _stand_in(settings: Settings) -> str:
    """Return how the run is smaller than Section 4: K = 200, d = 100, m = 20, N = 30, width 256, Adam at
    1e-4.
    """
    sizes = (
        f"K = {settings.K}, d = {settings.d}, m = {settings.m}, N = {settings.N}, width {settings.d_model}"
    )
    return f"{sizes} for K = 200, d = 100, m = 20, N = 30, width 256; Adam at {settings.rate:g} for 1e-4"


_HEADS = {"few": [3, 5], "enough": [10, 20], "too_many": 133, "steps": 1000, "crowded_steps": 100}
_MORE_HEADS = {"few": [8, 16], "enough": [30], "too_many": 400, "steps": 4000, "crowded_steps": 1500}


@claim(
    "P4/figure-4",
    plain="""Few heads descend more slowly but do not stop; divergence with far too many heads does not
        show within 100 steps.""",
    place="Section 4, Figure 4",
    title="The number of heads in one layer",
    quote="""setting H too large (H = 400) leads to instability and divergence of the loss. ... when H < N
        = 30, the loss stopped descending even when it is far from the minimal value. ... the loss keeps
        descending when H = 30""",
    quick={"K": 24, "d": 40, "m": 6, "N": 10, "tau": 0.01, **_HEADS, "rate": 1e-3},
    full={**PAPER_SIZE, **_MORE_HEADS, "rate": 1e-4},
    seeds=1,
    seconds=5.0,
)
def heads_in_one_layer(settings: Settings, seed: int) -> Finding:
    """Trained by Adam on the population loss with Gaussian tokens and Q, one layer with H < N heads ends
    farther from the least loss than one with H >= N, and descends less at the end; with far too many heads
    (400 for N = 30) the loss diverges.
    """
    dictionary = draw_dictionary(settings | {"tokens": "gaussian"}, seed)
    runs = {H: _descend(dictionary, settings, seed, H) for H in (*settings.few, *settings.enough)}
    ends = {H: _end(run) for H, run in runs.items()}
    late = {H: _late_fall(run) for H, run in runs.items()}
    too_many = settings.too_many
    crowded = _descend(dictionary, settings | {"steps": settings.crowded_steps}, seed, too_many)
    rise = _end(crowded) / crowded.gaps[0].item()
    least = min(late[H] for H in settings.few)
    return Finding(
        conclusions=(
            *_few_heads_lines(settings, ends, late),
            Conclusion(
                f"gap at the end / at the start with H = {too_many}", ">=", 1.0, rise, part="too many heads"
            ),
            Conclusion("H < N: least of gap at the end / at two thirds", ">=", 0.95, least, threshold="ours"),
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
    contrast = max(ends[H] for H in settings.enough) / min(ends[H] for H in settings.few)
    later = late[largest] - min(late[H] for H in settings.few)
    falls = f"gap at the end / at two thirds with H = {largest}, less the least with H < N"
    return (
        Conclusion("largest gap with H >= N / least with H < N", "<=", 1.0, contrast, part=part),
        Conclusion(falls, "<=", 0.0, later, part=part),
    )


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


def _heads_figure(runs: dict[int, TrainingRun]) -> Figure:
    def curve(H: int, run: TrainingRun) -> Series:
        shown = torch.arange(0, len(run.gaps), max(1, len(run.gaps) // 100))
        finite = shown[run.gaps[shown].isfinite()]
        return Series.of(f"H={H}", run.steps[finite], run.gaps[finite])

    curves = tuple(curve(H, run) for H, run in runs.items())
    return plot("Figure 4", ("step", "gap"), *curves, log="y")
