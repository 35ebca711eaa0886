"""Figures 2a and 3: one layer of attention."""

from itertools import pairwise
from typing import Any

import torch

from attangent.audit import Conclusion, Failure, Figure, Finding, Series, Settings, claim
from attangent.icl import IN_DOMAIN, OUT_OF_DOMAIN, Dictionary, RidgeLimit, Tasks, expected_distance
from attangent.papers.common.figures import plot
from attangent.papers.common.sizes import ratios
from attangent.papers.p4_in_context.claims import proofs
from attangent.papers.p4_in_context.claims.dictionary_setting import (
    PAPER_SIZE,
    alike_lines,
    curves_figure,
    draw_dictionary,
    fall,
    fall_lines,
    model,
    ridge_gram,
)
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.one_layer.training import TrainingRun, logit_scale

_SMALL = {"K": 24, "d": 12, "m": 5, "N": 8, "tau": 0.01}
_TRAINING = {"steps": 500, "rate": 1e-2, "prompts": 10_000, "batch": 256, "tests": 200, "record_every": 25}


@claim(
    "P4/figure-2a",
    plain="Three losses fall together in a smaller setting.",
    place="Section 4, Figure 2a",
    title="One layer: training and inference losses fall together",
    quote="""the three curves have the same descending trend, despite the inference loss on the ood
        dataset is higher""",
    quick={**_SMALL, "heads": 16, **_TRAINING},
    full={**PAPER_SIZE, "heads": 64, "steps": 1500, "rate": 1e-4, "record_every": 75},
    seeds=1,
    seconds=3.0,
)
def losses_fall_together(settings: Settings, seed: int) -> Finding:
    """Trained by Adam on sampled prompts, one layer of attention brings the training loss and the distances
    (1/K)|yhat - y*|^2 in-domain and out-of-domain down together, the last staying above the second.
    """
    start = model(settings, seed)
    run = _adam(start, settings, seed)
    gaps = run.gaps
    inside = run.watched["in-domain"]
    outside = run.watched["out-of-domain"]
    dictionary = draw_dictionary(settings | {"tokens": "gaussian"}, seed)
    saturated = model(settings | {"logit_std": logit_scale(dictionary)}, seed, dictionary)
    theirs = _adam(saturated, settings, seed)
    losses = {"gap": gaps, "in-domain loss": inside, "out-of-domain loss": outside}
    curves = {
        "training loss": start.limit.least_loss + gaps,
        "its gap to L*": gaps,
        "inference, in-domain": inside,
        "inference, out-of-domain": outside,
    }
    from_theirs = "fall from the paper's start, standard Gaussian tokens and Q"
    return Finding(
        conclusions=(
            *fall_lines(losses),
            Conclusion("least out-of-domain / in-domain loss", ">=", 1.0, (outside / inside).min().item()),
            *alike_lines("gap", losses, least_correlation=0.9, largest_fall=0.1),
            Conclusion(from_theirs, "<=", 0.1, fall(theirs.gaps), claimed=False),
        ),
        **setting_of_section_4(settings, "unit tokens and logits of standard deviation 2, for Gaussian ones"),
        numbers={
            "gap": run.gap,
            "in-domain": inside[-1].item(),
            "out-of-domain": outside[-1].item(),
            "L*": start.limit.least_loss,
            "gap from the paper's start": theirs.gap,
        },
        figures=(curves_figure("Figure 2a", run.steps, curves),),
    )


def setting_of_section_4(settings: Settings, *others: str) -> dict[str, Any]:
    """Return the arguments of a finding that say in what the run differs from Section 4, or is smaller."""
    sizes = {name: settings[name] for name in PAPER_SIZE if settings[name] != PAPER_SIZE[name]}
    if sizes:
        listed = ", ".join(f"{name} = {value} for {PAPER_SIZE[name]}" for name, value in sizes.items())
        return {"smaller": "; ".join((listed, *others))}
    rate = (f"Adam at {settings.rate:g}, for 1e-4",) if settings.rate != 1e-4 else ()
    return {"differs": (*rate, *others)}


def _adam(start: OneLayerAttention, settings: Settings, seed: int) -> TrainingRun:
    options = {name: settings[name] for name in ("steps", "rate", "prompts", "batch", "record_every")}
    watch = {
        "in-domain": _distance_to_limit(start.dictionary, IN_DOMAIN, settings.tests, seed + 1),
        "out-of-domain": _distance_to_limit(start.dictionary, OUT_OF_DOMAIN, settings.tests, seed + 2),
    }
    return start.fit("adam", **options, watch=watch, seed=seed, quiet=True)


def _distance_to_limit(dictionary: Dictionary, tasks: Tasks, tests: int, seed: int):
    labels = dictionary.prompts(tests, tasks, seed).shown
    return lambda m: (m.predict(labels) - m.limit.predict(labels)).square().mean().item()


LENGTHS = {"K": 200, "d": 4, "m": 100, "tau": 0.01, "N": 50, "lengths": list(range(50, 151, 10))}


@claim(
    "P4/figure-3",
    nature="remark",
    plain="""Printed: predictions are the better the closer N is to m. True: y* is the best linear
        predictor at every N, and its risk falls with N; y_best is worse by .01 to 1.2 %.""",
    failure=Failure(
        cause="P4/figure-3",
        consequence="an interpretation falls; no theorem uses it",
        first_size="every N other than m",
        root="the ridge N tau of (24) is taken for the best; it is m tau",
    ),
    proof=proofs.nearness,
    place="Section 3.2, end, and Section 4, Figure 3",
    title="The closer N is to m, the better",
    quote="""The closer m is to N, the closer the transformer's choice of templates is to the best
        possible choice, and the better the transformer's prediction will be""",
    quick=LENGTHS,
    full={"lengths": list(range(50, 151, 2))},
    rests_on=("P4/lemma-4", "P4/theorem-2"),
)
def nearness_of_n_and_m(settings: Settings, seed: int) -> Finding:
    """y_best, ridge regression with N tau, is the best that can be hoped for; the answers of the trained
    transformer are the better the closer N is to m, and best at N = m; the gap (1/K)|y* - y_best|^2 shrinks
    as N nears m.
    """
    dictionary = draw_dictionary(settings, seed)
    lengths = list(settings.lengths)
    pairs = [_limit_and_best(dictionary, N) for N in lengths]
    gaps = [expected_distance(a.dictionary, a.A, b.A) for a, b in pairs]
    risks = [a.risk() for a, _ in pairs]
    best = [b.risk() for _, b in pairs]
    m = dictionary.m
    best_length = lengths[risks.index(min(risks))]
    least_ratio = min(ratios(risks, best))
    wrong_turns = _wrong_turns(lengths, gaps, m)
    gap_at_m = _gap_at_m(lengths, gaps, m)
    return Finding(
        conclusions=(
            Conclusion(
                "least risk of y* / risk of y_best", ">=", 1 - 1e-12, least_ratio, part="y_best is best"
            ),
            Conclusion(
                "distance from m of the N with least risk", "<=", 0.0, abs(best_length - m), part="best at m"
            ),
            Conclusion("steps towards m at which the gap grows", "<=", 0.0, wrong_turns, part="gap"),
            Conclusion("gap where N is nearest to m / largest gap", "<=", 1e-9, gap_at_m, part="gap at m"),
        ),
        numbers={
            "N of the least risk": best_length,
            "risk of y* at the shortest prompt": risks[0],
            "risk of y* at the longest prompt": risks[-1],
        },
        figures=(_lengths_figure(lengths, gaps, risks, best),),
        remark="y* is the better of the two at every N other than m, by .01 to 1.2 % of the risk, and its "
        "risk falls as N grows: nothing is special about N = m but that the two ridges agree there.",
    )


@claim(
    "P4/figure-3-repaired",
    nature="remark",
    plain="y* is the best linear predictor at every N.",
    sharp="sharp: it is the minimiser",
    title="The trained transformer is the best linear predictor at every N",
    derivation="""A label is <lambda, z_i> + lambda'eps_i; the second term has mean 0 and covariance m tau I
        over tasks and noise, and is uncorrelated with the first. The best linear predictor of <lambda, z_k>
        from y therefore is z_k'Z(Z'Z + m tau I)^-1 y, ridge regression with m tau: y*. A predictor from N
        labels is one from N + 1 that ignores the last, so that the least risk cannot rise.""",
    quick={**LENGTHS, "factors": [0.25, 0.5, 0.8, 1.25, 2.0, 4.0]},
    sizes=({"m": 100}, {"m": 70}),
    seconds=0.8,
)
def best_linear_predictor(settings: Settings, seed: int) -> Finding:
    """For tasks with E lambda lambda' = I, y* has the least risk of all predictors that are linear in the
    labels, at every N, and that risk never rises with N.
    """
    dictionary = draw_dictionary(settings, seed)
    dictionaries = [dictionary.with_prompt_length(N) for N in settings.lengths]
    risks = [RidgeLimit(one).risk() for one in dictionaries]
    others = [
        min(RidgeLimit(one, alpha=factor * one.ridge).risk() for factor in settings.factors)
        for one in dictionaries
    ]
    last = dictionary.with_prompt_length(max(settings.lengths))
    shown = [_risk_on_the_last_tokens(last, N) for N in settings.lengths]
    growth = max(b / a for a, b in pairwise(shown))
    fewer = "largest ratio of the risk on fixed tokens to that with fewer labels"
    return Finding(
        conclusions=(
            Conclusion("largest risk of y* / least of other ridges", "<=", 1.0, max(ratios(risks, others))),
            Conclusion(fewer, "<=", 1 + 1e-9, growth),
        )
    )


@claim(
    "P4/fitting",
    nature="remark",
    plain="""For N < m the template is small, as printed. That the transformer overfits for N > m is
        false: its ridge m tau is the right one at every N.""",
    failure=Failure(
        cause="P4/figure-3",
        consequence="an interpretation falls; no theorem uses it",
        first_size="N = m + 20 in the setting tried, every N > m by the proof",
    ),
    proof=proofs.fitting,
    place="Section 3.2, the last two bullets",
    title="Underfitting for N < m, overfitting for N > m",
    quote="""When N > m, the transformer tends to overfit since it underestimates the noise level and in
        turn captures noise""",
    quick={**LENGTHS, "K": 120, "m": 40, "lengths": [20, 30, 60, 80], "prompts": 50, "noise_factor": 1.0},
    rests_on=("P4/theorem-2",),
)
def under_and_overfitting(settings: Settings, seed: int) -> Finding:
    """For N < m the transformer's template has a smaller norm than that of y_best; for N > m the transformer
    overfits, so that its risk exceeds that of y_best.
    """
    dictionary = draw_dictionary(settings, seed)
    pairs = {N: _limit_and_best(dictionary, N) for N in settings.lengths}
    short = [_norm_ratio(pairs[N], settings, seed) for N in settings.lengths if dictionary.m > N]
    tau = settings.noise_factor * dictionary.tau
    long = [
        pairs[N][0].risk(tau=tau) / pairs[N][1].risk(tau=tau) for N in settings.lengths if dictionary.m < N
    ]
    return Finding(
        conclusions=(
            Conclusion(
                "N < m: largest |lambda| / |lambda of y_best|", "<=", 1.0, max(short), part="N < m underfits"
            ),
            Conclusion("N > m: least risk / risk of y_best", ">=", 1.0, min(long), part="N > m overfits"),
        ),
        remark="The noise of a label has the variance |lambda|^2 tau, m tau on average, which is the "
        "transformer's ridge at every N. It is y_best, with N tau, that misjudges it.",
    )


def _norm_ratio(pair: tuple[RidgeLimit, RidgeLimit], settings: Settings, seed: int) -> float:
    """Return the largest ratio of the norms of the two templates over prompts."""
    dictionary = pair[0].dictionary
    y = dictionary.prompts(settings.prompts, seed=seed).shown
    norms = []
    for alpha in (dictionary.m * dictionary.tau, dictionary.N * dictionary.tau):
        norms.append(torch.linalg.solve(ridge_gram(dictionary.Z, alpha), dictionary.Z @ y.T).norm(dim=0))
    return (norms[0] / norms[1]).max().item()


def _risk_on_the_last_tokens(dictionary: Dictionary, N: int) -> float:
    """The risk of y* from N labels on the tokens that the longest prompt does not show."""
    Z = dictionary.features[:N].T
    queries = dictionary.Z_query
    weights = Z.T @ torch.linalg.solve(ridge_gram(Z, dictionary.ridge), queries)
    bias = (Z @ weights - queries).square().sum()
    return ((bias + dictionary.ridge * weights.square().sum()) / queries.shape[1]).item()


def _limit_and_best(dictionary: Dictionary, N: int) -> tuple[RidgeLimit, RidgeLimit]:
    shorter = dictionary.with_prompt_length(N)
    return RidgeLimit(shorter), RidgeLimit.best(shorter)


def _gap_at_m(lengths: list[int], gaps: list[float], m: int) -> float:
    nearest = min(range(len(lengths)), key=lambda i: abs(lengths[i] - m))
    return gaps[nearest] / max(gaps) if max(gaps) > 0 else 0.0


def _wrong_turns(lengths: list[int], gaps: list[float], m: int) -> int:
    """How often the gap grows from one length to the next one nearer to m."""
    below = [gap for N, gap in zip(lengths, gaps, strict=True) if m >= N]
    above = [gap for N, gap in zip(lengths, gaps, strict=True) if m <= N][::-1]
    return sum(b > a * (1 + 1e-9) for side in (below, above) for a, b in pairwise(side))


def _lengths_figure(lengths: list[int], gaps: list[float], risks: list[float], best: list[float]) -> Figure:
    return plot(
        "Figure 3, with what it leaves out",
        ("labels N in a prompt", "mean square"),
        Series.of("(1/K)|y* - y_best|^2", lengths, gaps),
        Series.of("risk of y*", lengths, risks),
        Series.of("risk of y_best", lengths, best, "bound"),
        log="",
    )
