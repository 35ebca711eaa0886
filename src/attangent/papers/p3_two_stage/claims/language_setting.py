"""Section 5 and Appendix C: which facts a claim trains on, and the training they share."""

from functools import lru_cache
from typing import Any

from attangent.audit.claims import Settings
from attangent.data.places import data_file
from attangent.audit.finding import Hypothesis
from attangent.papers.p3_two_stage.facts.corpus import FactCorpus
from attangent.papers.p3_two_stage.facts.counterfact import load_counterfact
from attangent.papers.p3_two_stage.facts.hotpotqa import load_hotpotqa
from attangent.papers.p3_two_stage.facts.language import LanguageRun, LanguageTraining, train_on_facts
from attangent.papers.p3_two_stage.facts.typed_facts import TypedFacts

COUNTERFACT = tuple(f"counterfact/counterfact-{part}.json.gz" for part in ("train", "edit", "val"))
HOTPOTQA = ("hotpotqa/hotpotqa.json.gz",)
LOADERS = {"CounterFact": (COUNTERFACT, load_counterfact), "HotpotQA": (HOTPOTQA, load_hotpotqa)}

MODEL = {"width": 64, "layers": 2, "heads": 2, "rate": 2e-3, "batch": 48, "epochs": 18}
READ = {"readings_per_epoch": 2, "most_examples": 300, "syntax_at": 0.95}
TYPED = {"relations": 10, "answers": 20, "subjects": 150, "facts_per_subject": 2, "links": 0}
TWO_HOPS = {"relations": 8, "answers": 20, "subjects": 100, "facts_per_subject": 3, "links": 4}
MADE_UP = {"source": "made up", "facts": 0, **MODEL, **READ}
REAL = {"width": 128, "heads": 4, "rate": 1e-3, "batch": 64, "most_examples": 400}
ON_COUNTERFACT = {**REAL, "source": "CounterFact", "facts": 4000, "epochs": 10, "readings_per_epoch": 3}
ON_HOTPOTQA = {"source": "HotpotQA", "epochs": 24, "subjects": 200}


def on_counterfact(marks: dict[str, Any], full: dict[str, Any]) -> dict[str, Any]:
    """How a claim runs whose figure is on CounterFact: made-up facts in quick, the real ones in full."""
    return {
        "quick": {**MADE_UP, **TYPED, **marks},
        "full": {**ON_COUNTERFACT, **full},
        "seeds": 1,
        "full_seeds": 2,
        "data": COUNTERFACT,
    }


def on_hotpotqa(marks: dict[str, Any]) -> dict[str, Any]:
    """The same on HotpotQA, whose questions take two hops."""
    return {"quick": {**MADE_UP, **TWO_HOPS, **marks}, "full": ON_HOTPOTQA, "seeds": 1, "data": HOTPOTQA}


def trained(settings: Settings, seed: int) -> LanguageRun:
    """A GPT-2 trained on the source that the settings name; on made-up facts where its files are absent."""
    typed = TypedFacts(**{name: settings[name] for name in TYPED}, seed=seed)
    sizes = {name: settings[name] for name in (*MODEL, *READ) if name != "syntax_at"}
    training = LanguageTraining(**sizes, seed=seed)
    return _trained(
        _files(settings.source), settings.source, settings.facts, typed, training, settings.syntax_at
    )


@lru_cache(maxsize=8)
def _trained(
    files: tuple[str, ...],
    source: str,
    facts: int,
    typed: TypedFacts,
    training: LanguageTraining,
    syntax_at: float,
) -> LanguageRun:
    """Claims on the same model train it once where one process checks them after each other."""
    corpus = _corpus(files, source, facts, training.seed) if files else typed.corpus()
    return train_on_facts(corpus, training, syntax_at)


def _files(source: str) -> tuple[str, ...]:
    """The files of a source; none where one of them is absent or the facts are made up."""
    if source not in LOADERS:
        return ()
    found = [data_file(name) for name in LOADERS[source][0]]
    return tuple(str(path) for path in found if path) if all(found) else ()


def _corpus(files: tuple[str, ...], source: str, facts: int, seed: int) -> FactCorpus:
    return LOADERS[source][1](files, facts=facts or None, seed=seed)


def from_the_paper(run: LanguageRun, source: str) -> Hypothesis:
    """Whether the model was trained on the data of the figure."""
    return Hypothesis(f"the facts are those of {source}", "==", 1.0, float(run.corpus.source == source))


def differences(run: LanguageRun, settings: Settings) -> tuple[str, ...]:
    """In what the training differs from Section 5 and Appendix C, which name GPT-2 and 40 to 200 epochs."""
    return (
        f"a GPT-2 of width {settings.width} with {settings.layers} layers, for one of width 768 with 12",
        f"{len(run.corpus.training)} examples and {settings.epochs} epochs, for 65,757 (CounterFact) or "
        "13,530 (HotpotQA) and at least 40",
    )


def remark(run: LanguageRun, source: str) -> str:
    """Where the facts come from, and what would bring those of the paper."""
    if run.corpus.source == source:
        return f"Trained on {len(run.corpus.training)} examples of {source}."
    files = ", ".join(LOADERS[source][0])
    return (
        f"Trained on {len(run.corpus.training)} made-up examples ({run.corpus.source}). The full profile "
        f"takes {source} where ATTANGENT_DATA names a folder with {files}."
    )
