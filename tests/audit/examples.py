"""Runs made by hand: every verdict, odd numbers, several seeds, crashes, damaged files and hostile text."""

import math
from pathlib import Path

import numpy as np

from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Run, Series
from attangent.audit.storing import FindingRecord, Origin

HOSTILE = (
    "<script>document.title='owned'</script>\"'>$\\frac{a}{b}$ &amp; </style></script>"
    "<img src=x onerror=document.title='owned'>"
)
TRACEBACK = (
    'Traceback (most recent call last):\n  File "check.py", line 1, in check\nRuntimeError: <b>bad</b> luck'
)
VERSIONS = {"python": "3.13.1", "torch": "2.13.0"}


def make_record(claim: str, finding: Finding, seed: int = 0, **changes) -> FindingRecord:
    """A record of `claim`; `changes` replace parts of its origin."""
    fields = {
        "claim": claim,
        "title": f"Title of {claim}",
        "place": "Section 3, Lemma 3.1",
        "statement": f"The statement of {claim} in our words.",
        "profile": "quick",
        "settings": {"n": 8, "rate": 0.5},
        "seed": seed,
        "code": "0123abcd",
    }
    return FindingRecord(Origin(**{**fields, **changes}), finding, 1.5, VERSIONS)


def make_run(*records: FindingRecord, failures=(), problems=None) -> Run:
    return Run(Path("runs/audit-quick"), "quick", records, tuple(failures), problems or {})


def bounded(measured: float, bound: float = 1.0, **parts) -> Finding:
    """A finding with one claimed conclusion."""
    return Finding(conclusions=(Conclusion("error", "<=", bound, measured),), **parts)


def curves(seed: int = 0, title: str = "Loss") -> Figure:
    steps = np.arange(200.0)
    fall = np.exp(-steps / (20 + 3 * seed))
    return Figure(
        title,
        "step",
        "loss",
        (
            Series.of("trained", steps, fall),
            Series.of("bound", steps, 2 * np.exp(-steps / 30), "bound"),
            Series.of("predicted", steps[::10], fall[::10], "points"),
        ),
        log_y=True,
    )


def bars(names: tuple[str, ...] = ("first part", "second part")) -> Figure:
    places = np.arange(len(names))
    series = (
        Series.of("measured", places, 1.0 + places, "bars"),
        Series.of("bound", places, 2.0 + places, "bound"),
    )
    return Figure("Parts", "part", "value", series, ticks=names)


def _holds(seed: int) -> Finding:
    return bounded(
        0.3 + 0.1 * seed,
        hypotheses=(Hypothesis("width", ">=", 64, 256),),
        numbers={"slope": 1.0 + seed, "constant": 2.0, "steps needed": math.inf if seed else 12},
        figures=(curves(seed),),
    )


def _measured(seed: int) -> Finding:
    return bounded(
        0.5,
        hypotheses=(Hypothesis("width", ">=", 198.5, 3.3, log10=True), Hypothesis("points", "<=", 9, 8)),
        figures=(bars(("a name that is longer than one line of the figure allows", "short")),),
        remark="The bound is far from tight.",
    )


def _violated(seed: int) -> Finding:
    return Finding(
        conclusions=(
            Conclusion("error at every step", "<=", 1.0, 1.0 + 1e-9, first_violation=17),
            Conclusion("error with our factor", "<=", 4.0, 1.0, claimed=False),
            Conclusion("tail", "<=", 30.0, -5.25, log10=True),
        ),
        hypotheses=(Hypothesis("rate", "<=", 0.1, 0.5),),
        numbers={"ratio": math.nan},
    )


def _violated_inside(seed: int) -> Finding:
    return bounded(2.0e-5, 1.2e-5, hypotheses=(Hypothesis("rate", "<=", 1.0, 0.5),))


def _open(seed: int) -> Finding:
    return bounded(
        math.nan, math.inf, figures=(Figure("Lost", "x", "y", (Series.of("a", [1.0], [math.nan]),)),)
    )


def _hostile(seed: int) -> Finding:
    series = (Series.of(HOSTILE, [0.0, 1.0], [1.0, 2.0]), Series.of("b", [0.0, 1.0], [2.0, 1.0], "bars"))
    return Finding(
        conclusions=(Conclusion(HOSTILE, "<=", 1.0, 2.0),),
        hypotheses=(Hypothesis(HOSTILE, ">=", 1.0, -1.0),),
        numbers={HOSTILE: 1.0},
        figures=(Figure(HOSTILE, HOSTILE, HOSTILE, series, ticks=(HOSTILE, "<b>$x$</b>")),),
        remark=HOSTILE,
    )


def showcase() -> Run:
    """A run of three papers in which everything occurs that a report has to show."""
    kinds = {
        "P1/theorem-1.1": _holds,
        "P1/lemma-1.2": _measured,
        "P2/theorem-2.1": _violated,
        "P2/lemma-2.2": _violated_inside,
        "P2/lemma-2.3": _holds,
        "P3/figure-3": _open,
    }
    records = [make_record(claim, make(seed), seed) for claim, make in kinds.items() for seed in range(3)]
    odd = dict.fromkeys(("title", "place", "statement"), HOSTILE)
    records.append(make_record("P3/table-9", _hostile(0), **odd, settings={HOSTILE: HOSTILE}))
    failures = [{"claim": "P1/theorem-1.1", "seed": 3, "traceback": TRACEBACK}]
    problems = {Path("runs/audit-quick/findings/odd.json"): f"it is not a finding {HOSTILE}"}
    return make_run(*records, failures=failures, problems=problems)
