"""Figure 1: as more small singular values are kept, answers turn from wrong words to right types to right."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.audit.checks import needs_adapters
from attangent.papers.p3_two_stage.claims.language_setting import (
    COUNTERFACT,
    MADE_UP,
    ON_COUNTERFACT,
    TYPED,
    differences,
    from_the_paper,
    remark,
    trained,
)
from attangent.papers.p3_two_stage.facts.fact_model import FactModel
from attangent.papers.p3_two_stage.facts.tokens import Batch
from attangent.papers.p3_two_stage.spectrum_edit import Keep, edit_spectrum


@dataclass(frozen=True)
class Answers:
    """Whether answers are of the right type, and right, (rhos, examples) each; row 0 is without attention."""

    right_type: Tensor
    right: Tensor

    @property
    def by_way_of_type(self) -> int:
        """How many answers begin with a wrong type, are then of the right type but wrong, and end right."""
        wrong_yet = self.right.int().cumsum(0) == 0
        passed = (self.right_type & wrong_yet).any(0)
        return int((~self.right_type[0] & passed & self.right[-1]).sum())

    @property
    def syntax_first(self) -> float:
        """Of the right types that attention brings, the most that are back while half the right answers are
        not; nan where attention brings next to none."""
        shares = [part.double().mean(1) for part in (self.right_type, self.right)]
        brought = [part - part[0] for part in shares]
        if min(part[-1] for part in brought) < 0.05:
            return float("nan")
        syntax, semantics = (part / part[-1] for part in brought)
        return float(syntax[semantics <= 0.5].max())


def answers(model: FactModel, examples: Batch, keep: Keep, rhos: Sequence[float]) -> Answers:
    """With `keep` at every rho, after a first row with all singular values dropped."""
    edits: list[tuple[Keep, float]] = [("drop_largest", 1.0), *((keep, rho) for rho in rhos)]
    judged = []
    for mode, rho in edits:
        with edit_spectrum(model.gpt2, mode, rho=rho):
            judged.append(model.judge(examples))
    right_type, right = zip(*judged, strict=True)
    return Answers(torch.stack(right_type), torch.stack(right))


@claim(
    "P3/figure-1",
    place="Section 1, Figure 1 (one example)",
    quote="setting different rank preservation over attention weights",
    rests_on=("P3/figure-6",),
    title="From a wrong word to the right type to the right answer",
    statement="""As more small singular values of a trained model's attention are kept, its answer to a
        question turns from a word of a wrong type to one of the right type, and then to the right one: small
        values bring back the syntax before the semantics.""",
    quick={
        **MADE_UP,
        **TYPED,
        "rhos": [0.1, 0.5, 0.8, 0.9, 0.92, 0.94, 0.95, 0.97, 0.98, 1.0],
        "share": 0.5,
    },
    full=ON_COUNTERFACT,
    seeds=1,
    full_seeds=2,
    seconds=10.0,
    data=COUNTERFACT,
)
@needs_adapters
def rank_preservation(settings: Settings, seed: int) -> Finding:
    run = trained(settings, seed)
    watched = run.corpus.training[:: max(1, len(run.corpus.training) // settings.most_examples)]
    model, examples = run.restore("end"), run.model.vocabulary.encode(watched)
    small, large = (answers(model, examples, keep, settings.rhos) for keep in ("smallest", "largest"))
    first = "right types back while most right answers are not"
    return Finding(
        conclusions=(
            Conclusion("answers that turn as in the figure", ">=", 1.0, small.by_way_of_type),
            Conclusion(f"{first}, smallest kept", ">=", settings.share, small.syntax_first, threshold="ours"),
            Conclusion(f"{first}, largest kept", ">=", settings.share, large.syntax_first, claimed=False),
        ),
        hypotheses=(from_the_paper(run, "CounterFact"),),
        differs=differences(run, settings),
        numbers={
            "questions": float(len(watched)),
            "right types without attention": small.right_type[0].double().mean().item(),
            "right answers without attention": small.right[0].double().mean().item(),
            "answers that turn, largest kept": float(large.by_way_of_type),
        },
        figures=(_figure(small, "smallest", settings.rhos), _figure(large, "largest", settings.rhos)),
        remark=remark(run, "CounterFact"),
    )


def _figure(found: Answers, kept: str, rhos: Sequence[float]) -> Figure:
    curves = {"right type": found.right_type, "right": found.right}
    return Figure(
        f"Answers with the {kept} values kept",
        "rho",
        "share",
        tuple(Series.of(label, rhos, part[1:].double().mean(1)) for label, part in curves.items()),
    )
