"""P3: attention that learns an easy pattern before a hard one, facts in a GPT-2, edits of its spectrum."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.papers.p3_two_stage.facts.corpora import FactCorpus, TypedFacts, load_counterfact
    from attangent.papers.p3_two_stage.facts.language import LanguageTraining, train_on_facts
    from attangent.papers.p3_two_stage.spectrum_edit import edit_spectrum
    from attangent.papers.p3_two_stage.theory.attention import ReluAttention
    from attangent.papers.p3_two_stage.theory.data import TwoStageData
    from attangent.papers.p3_two_stage.theory.floor import (
        bias_solution,
        minimise_q_loss,
        paper_solution,
        q_loss,
        q_loss_bounds,
        signed_solution,
    )
    from attangent.papers.p3_two_stage.theory.training import ConstantRate, NoisySGD, train

__all__ = [
    "ConstantRate",
    "FactCorpus",
    "LanguageTraining",
    "NoisySGD",
    "ReluAttention",
    "TwoStageData",
    "TypedFacts",
    "bias_solution",
    "edit_spectrum",
    "load_counterfact",
    "minimise_q_loss",
    "paper_solution",
    "q_loss",
    "q_loss_bounds",
    "signed_solution",
    "train",
    "train_on_facts",
]

_HOMES = {
    "facts.corpora": ("FactCorpus", "TypedFacts", "load_counterfact"),
    "facts.language": ("LanguageTraining", "train_on_facts"),
    "spectrum_edit": ("edit_spectrum",),
    "theory.attention": ("ReluAttention",),
    "theory.data": ("TwoStageData",),
    "theory.floor": (
        "bias_solution",
        "minimise_q_loss",
        "paper_solution",
        "q_loss",
        "q_loss_bounds",
        "signed_solution",
    ),
    "theory.training": ("ConstantRate", "NoisySGD", "train"),
}
__getattr__, __dir__ = lazy_names(__name__, {name: home for home, names in _HOMES.items() for name in names})
