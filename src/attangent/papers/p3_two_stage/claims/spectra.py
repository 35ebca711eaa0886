"""Figures 1, 6 and 8: what large and small singular values of trained attention hold.

The paper keeps the largest values of a late checkpoint and the smallest of an early one. Here every edit is
made at both. Accuracy without any attention (all values dropped) is not zero, so the share of the values is
measured relative to what attention adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from attangent.audit import Conclusion, Figure, Finding, Series, Settings, claim
from attangent.audit.checks import needs_adapters
from attangent.papers.common.figures import plot
from attangent.papers.p3_two_stage.claims.language import (
    COUNTERFACT,
    MADE_UP,
    ON_COUNTERFACT,
    TYPED,
    from_the_paper,
    on_counterfact,
    on_hotpotqa,
    setting_of_section_5,
    trained,
)
from attangent.papers.p3_two_stage.facts.language import FactBatch, FactModel, LanguageRun
from attangent.papers.p3_two_stage.spectrum_edit import Keep, edit_spectrum

MODES: tuple[Keep, ...] = ("largest", "smallest", "drop_largest")


STATEMENT = """Small singular values of trained attention weights (q, k, v, o) hold syntax and large ones
    semantics: keeping more values makes more answers right, the largest bring back more of the semantics than
    the smallest, and the smallest more of the syntax than the largest."""


EDITS = {"rhos": [0.1, 0.2, 0.4, 0.6, 0.8, 0.9, 1.0], "large": 0.2, "small": 0.8, "share": 0.5, "slack": 0.05}


@dataclass(frozen=True)
class Accuracies:
    """Syntax and semantics under edits of one checkpoint: by mode, one number per rho; unedited, and without
    attention.
    """

    syntax: dict[str, NDArray[np.float64]]
    semantics: dict[str, NDArray[np.float64]]
    whole: tuple[float, float]
    nothing: tuple[float, float]

    def held(self, what: int, mode: Keep, index: int) -> float:
        """Return the fraction retained of what attention adds to syntax (0) or semantics (1); nan if it adds
        little.
        """
        added = self.whole[what] - self.nothing[what]
        retained = (self.syntax, self.semantics)[what][mode][index] - self.nothing[what]
        return float(retained / added) if added > 0.05 else float("nan")


def accuracies(model: FactModel, examples: FactBatch, rhos: Sequence[float]) -> Accuracies:
    """Measure every mode at every rho."""

    def read(keep: Keep, rho: float) -> tuple[float, float]:
        with edit_spectrum(model.gpt2, keep, rho=rho):
            reading = model.read(examples)
        return reading.syntax, reading.semantics

    by_mode = {mode: np.array([read(mode, rho) for rho in rhos]) for mode in MODES}
    unedited = model.read(examples)
    return Accuracies(
        syntax={mode: values[:, 0] for mode, values in by_mode.items()},
        semantics={mode: values[:, 1] for mode, values in by_mode.items()},
        whole=(unedited.syntax, unedited.semantics),
        nothing=read("drop_largest", 1.0),
    )


def _questions(run: LanguageRun, settings: Settings) -> FactBatch:
    """Return evenly spaced training examples."""
    stride = max(1, len(run.corpus.training) // settings.most_examples)
    return run.model.vocabulary.encode(run.corpus.training[::stride])


def spectra(settings: Settings, seed: int, source: str) -> Finding:
    run = trained(settings, seed)
    if "syntax" not in run.checkpoints:
        return _open(run, source)
    questions = _questions(run, settings)
    checkpoints = ("syntax", "end")
    edited = {name: accuracies(run.restore(name), questions, settings.rhos) for name in checkpoints}
    figures = product(edited, ("syntax", "semantics"))
    return Finding(
        conclusions=_conclusions(edited, settings),
        numbers=_numbers(edited, run),
        figures=tuple(_edits_figure(edited[name], what, name, settings.rhos) for name, what in figures),
        **setting_of_section_5(run, settings, source),
    )


def _conclusions(edited: dict[str, Accuracies], settings: Settings) -> tuple[Conclusion, ...]:
    large = settings.rhos.index(settings.large)
    small = settings.rhos.index(settings.small)
    early = edited["syntax"]
    late = edited["end"]
    falls = -np.diff(late.semantics["largest"]).min()
    rise = late.semantics["largest"][-1] - late.semantics["largest"][0]
    syntax = early.held(0, "smallest", small) - early.held(0, "largest", large)
    semantics = late.held(1, "largest", large) - late.held(1, "smallest", small)
    largest = f"largest {settings.large:.0%}"
    rest = f"smallest {settings.small:.0%}"
    falls_most = "largest fall of semantics with more values"
    held = {
        f"semantics in the {largest}, at the end": late.held(1, "largest", large),
        f"syntax in the {rest}, early": early.held(0, "smallest", small),
        f"syntax in the {rest}, at the end": late.held(0, "smallest", small),
        f"syntax in the {largest}, early": early.held(0, "largest", large),
    }
    return (
        Conclusion("semantics with all values minus with the fewest largest", ">=", 0.0, float(rise)),
        Conclusion(f"semantics in the {largest} minus in the {rest}, at the end", ">=", 0.0, semantics),
        Conclusion(f"syntax in the {rest} minus in the {largest}, early", ">=", 0.0, syntax),
        Conclusion(falls_most, "<=", settings.slack, float(falls), threshold="ours"),
        *(Conclusion(name, ">=", settings.share, share, threshold="ours") for name, share in held.items()),
    )


def _numbers(by_checkpoint: dict[str, Accuracies], run: LanguageRun) -> dict[str, float]:
    numbers = {}
    for name, edited in by_checkpoint.items():
        numbers[f"epoch of the checkpoint {name}"] = run.checkpoints[name].epoch
        for what, label in enumerate(("syntax", "semantics")):
            numbers[f"{label} at {name}"] = edited.whole[what]
            numbers[f"{label} at {name} without attention"] = edited.nothing[what]
    return numbers


def _edits_figure(edited: Accuracies, what: str, checkpoint: str, rhos: Sequence[float]) -> Figure:
    labels = {"largest": "largest kept", "smallest": "smallest kept", "drop_largest": "largest dropped"}
    values = edited.syntax if what == "syntax" else edited.semantics
    return plot(
        f"{what.capitalize()} at the checkpoint {checkpoint}",
        ("rho", "share"),
        *(Series.of(label, rhos, values[mode]) for mode, label in labels.items()),
        log="",
    )


def _open(run: LanguageRun, source: str) -> Finding:
    return Finding(
        conclusions=(Conclusion("syntax in the smallest values", ">=", 0.5, float("nan")),),
        hypotheses=(from_the_paper(run, source),),
        remark="Syntax was never reached, so there is no checkpoint to edit: train for more epochs.",
    )


@claim(
    "P3/figure-6",
    plain="""In a small GPT-2 on made-up facts (quick profile) the largest singular values hold syntax and
        semantics alike.""",
    place="Section 5, Figure 6",
    quote="""relatively small eigenvalues of attention weights store syntax information and large ones
        store semantics""",
    rests_on=("P3/corollary-1",),
    title="Content of large and small singular values (CounterFact)",
    statement=STATEMENT,
    seconds=11.0,
    **on_counterfact(EDITS, full={"rhos": [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]}),
)
@needs_adapters
def counterfact_spectra(settings: Settings, seed: int) -> Finding:
    return spectra(settings, seed, "CounterFact")


@claim(
    "P3/figure-8",
    plain="In a small GPT-2 on two-hop facts the largest singular values hold syntax and semantics alike.",
    place="Appendix C.2, Figure 8",
    quote="""relatively small eigenvalues of attention weights store syntax information and large ones
        store semantics""",
    rests_on=("P3/corollary-1",),
    title="Content of large and small singular values (HotpotQA)",
    statement=STATEMENT,
    seconds=11.0,
    **on_hotpotqa(EDITS),
)
@needs_adapters
def hotpotqa_spectra(settings: Settings, seed: int) -> Finding:
    return spectra(settings, seed, "HotpotQA")


@dataclass(frozen=True)
class Answers:
    """Whether answers are of the right type, and right, (rhos, examples) each; row 0 is without attention."""

    right_type: Tensor
    right: Tensor

    @property
    def by_way_of_type(self) -> int:
        """How many answers start with a wrong type, are then of the right type but wrong, and end right."""
        wrong_yet = self.right.int().cumsum(0) == 0
        passed = (self.right_type & wrong_yet).any(0)
        return int((~self.right_type[0] & passed & self.right[-1]).sum())

    @property
    def syntax_first(self) -> float:
        """The largest fraction of the right types brought back by attention while at most half of the right
        answers are; nan if attention adds almost none.
        """
        shares = [share.double().mean(1) for share in (self.right_type, self.right)]
        brought = [share - share[0] for share in shares]
        if min(share[-1] for share in brought) < 0.05:
            return float("nan")
        syntax, semantics = (share / share[-1] for share in brought)
        return float(syntax[semantics <= 0.5].max())


def answers(model: FactModel, examples: FactBatch, keep: Keep, rhos: Sequence[float]) -> Answers:
    """Judge answers with `keep` at every rho, after a first row with all singular values dropped."""
    edits: list[tuple[Keep, float]] = [("drop_largest", 1.0), *((keep, rho) for rho in rhos)]
    judged = []
    for mode, rho in edits:
        with edit_spectrum(model.gpt2, mode, rho=rho):
            judged.append(model.judge(examples))
    right_type, right = zip(*judged, strict=True)
    return Answers(torch.stack(right_type), torch.stack(right))


@claim(
    "P3/figure-1",
    plain="""In a small model on made-up facts (quick profile) the smallest values bring back some right
        types before most right answers, and the largest none. Answers turn as in the figure's example.""",
    place="Section 1, Figure 1 (one example)",
    quote="setting different rank preservation over attention weights",
    rests_on=("P3/figure-6",),
    title="From a wrong word to the right type to the right answer",
    quick={**MADE_UP, **TYPED, "rhos": [0.1, 0.5, 0.8, 0.9, 0.92, 0.94, 0.95, 0.97, 0.98, 1.0], "share": 0.5},
    full=ON_COUNTERFACT,
    seeds=1,
    full_seeds=2,
    seconds=10.0,
    data=COUNTERFACT,
)
@needs_adapters
def rank_preservation(settings: Settings, seed: int) -> Finding:
    """As more small singular values of a trained model's attention are kept, its answer to a question turns
    from a word of a wrong type to one of the right type, and then to the right one. Small values bring back
    the syntax before the semantics.
    """
    run = trained(settings, seed)
    questions = _questions(run, settings)
    model = run.restore("end")
    small, large = (answers(model, questions, keep, settings.rhos) for keep in ("smallest", "largest"))
    first = "right types back while most right answers are missing"
    difference = small.syntax_first - large.syntax_first
    return Finding(
        conclusions=(
            Conclusion(f"{first}: smallest kept minus largest kept", ">=", 0.0, difference),
            Conclusion("answers that turn as in the figure", ">=", 1.0, small.by_way_of_type, claimed=False),
            Conclusion(f"{first}, smallest kept", ">=", settings.share, small.syntax_first, threshold="ours"),
            Conclusion(f"{first}, largest kept", ">=", settings.share, large.syntax_first, claimed=False),
        ),
        numbers={
            "questions": float(len(questions)),
            "right types without attention": small.right_type[0].double().mean().item(),
            "right answers without attention": small.right[0].double().mean().item(),
            "answers that turn, largest kept": float(large.by_way_of_type),
        },
        figures=(
            _answers_figure(small, "smallest", settings.rhos),
            _answers_figure(large, "largest", settings.rhos),
        ),
        **setting_of_section_5(run, settings, "CounterFact"),
    )


def _answers_figure(answers: Answers, which: str, rhos: Sequence[float]) -> Figure:
    curves = {"right type": answers.right_type, "right": answers.right}
    return plot(
        f"Answers with the {which} values kept",
        ("rho", "share"),
        *(Series.of(label, rhos, values[1:].double().mean(1)) for label, values in curves.items()),
        log="",
    )
