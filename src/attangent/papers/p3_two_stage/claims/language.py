"""Figures 5 and 7: a GPT-2 trained on facts learns the type of an answer first, then the answer."""

from functools import lru_cache
from typing import Any

from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings, claim
from attangent.audit.checks import needs_adapters
from attangent.data.places import data_file
from attangent.papers.common.figures import plot
from attangent.papers.p3_two_stage.facts.corpora import TypedFacts, load_counterfact, load_hotpotqa
from attangent.papers.p3_two_stage.facts.language import LanguageRun, LanguageTraining, train_on_facts
from attangent.stages.detector import StageDetector
from attangent.stages.group import Group

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
    """Return the settings of a claim whose figure uses CounterFact: made-up facts in quick, the real ones in
    full.
    """
    return {
        "quick": {**MADE_UP, **TYPED, **marks},
        "full": {**ON_COUNTERFACT, **full},
        "seeds": 1,
        "full_seeds": 2,
        "data": COUNTERFACT,
    }


def on_hotpotqa(marks: dict[str, Any]) -> dict[str, Any]:
    """Return the same for HotpotQA, whose questions take two hops."""
    return {"quick": {**MADE_UP, **TWO_HOPS, **marks}, "full": ON_HOTPOTQA, "seeds": 1, "data": HOTPOTQA}


def trained(settings: Settings, seed: int) -> LanguageRun:
    """Train a GPT-2 on the source of the settings, or on made-up facts if its files are absent."""
    typed = TypedFacts(**{name: settings[name] for name in TYPED}, seed=seed)
    sizes = {name: settings[name] for name in (*MODEL, *READ) if name != "syntax_at"}
    training = LanguageTraining(**sizes, seed=seed)
    files = _files(settings.source)
    return _trained(files, settings.source, settings.facts or None, typed, training, settings.syntax_at)


@lru_cache(maxsize=8)
def _trained(
    files: tuple[str, ...],
    source: str,
    facts: int | None,
    typed: TypedFacts,
    training: LanguageTraining,
    syntax_at: float,
) -> LanguageRun:
    """Train once for all claims on the same model that one process checks."""
    corpus = LOADERS[source][1](files, facts=facts, seed=training.seed) if files else typed.corpus()
    return train_on_facts(corpus, training, syntax_at)


def _files(source: str) -> tuple[str, ...]:
    """Return the files of a source; none if one of them is absent or the facts are made up."""
    if source not in LOADERS:
        return ()
    paths = [data_file(name) for name in LOADERS[source][0]]
    return tuple(str(path) for path in paths if path) if all(paths) else ()


def from_the_paper(run: LanguageRun, source: str) -> Hypothesis:
    """Return the hypothesis that the model was trained on the data of the figure."""
    return Hypothesis(f"the facts are those of {source}", "==", 1.0, float(run.corpus.source == source))


def setting_of_section_5(run: LanguageRun, settings: Settings, source: str) -> dict[str, Any]:
    """Return the arguments of a finding that say how the run differs from Section 5 and Appendix C.

    The paper trains GPT-2 for 40 to 200 epochs.
    """
    examples = len(run.corpus.training)
    smaller = (
        f"a GPT-2 of width {settings.width} with {settings.layers} layers instead of width 768 with 12, "
        f"{examples} examples and {settings.epochs} epochs instead of "
        "65,757 (CounterFact) or 13,530 (HotpotQA) examples and at least 40 epochs"
    )
    common = {"hypotheses": (from_the_paper(run, source),), "smaller": smaller}
    if run.corpus.source == source:
        return {**common, "remark": f"Trained on {examples} examples of {source}."}
    return {
        **common,
        "differs": (f"synthetic facts instead of {source}, which was not run",),
        "remark": f"Trained on {examples} made-up examples ({run.corpus.source}). The full profile uses "
        f"{source} if ATTANGENT_DATA names a folder with {', '.join(LOADERS[source][0])}.",
    }


STATEMENT = """A GPT-2 trained from scratch on {} first answers with the right type while most answers are
    wrong, and only later with the right answer in most cases, the types staying right. Syntax counts as
    reached at .95 of the answers."""


BARS = {"few": 0.3, "most": 0.85}


def two_stages(settings: Settings, seed: int, source: str) -> Finding:
    """Return accuracies and the split loss over the epochs, and the detector's stages."""
    run = trained(settings, seed)
    detector = _detector(run)
    groups = {group.name: group for group in detector.findings.groups}
    at_syntax = run.checkpoints.get("syntax", run.checkpoints["end"]).reading
    end = run.checkpoints["end"].reading
    in_order = detector.order == ("syntax", "semantics")
    lost = end.syntax - at_syntax.syntax
    return Finding(
        conclusions=(
            Conclusion("semantics when syntax is reached", "<=", 0.5, at_syntax.semantics),
            Conclusion("semantics at the end", ">=", 0.5, end.semantics),
            Conclusion("syntax at the end minus when it was reached", ">=", -0.05, lost),
            *_with_our_thresholds(run, settings, in_order),
            *_unseen(run, settings),
        ),
        numbers=_numbers(run, settings, groups),
        figures=_figures(run, source),
        **setting_of_section_5(run, settings, source),
    )


def _detector(run: LanguageRun) -> StageDetector:
    """Detect syntax by -log p(type) and semantics by -log p(answer | type)."""
    detector = StageDetector(["syntax", "semantics"])
    columns = (run.readings[name].tolist() for name in ("epoch", "type_loss", "answer_loss"))
    for epoch, type_loss, answer_loss in zip(*columns, strict=True):
        detector.update(epoch, {"syntax": type_loss, "semantics": answer_loss})
    return detector


def _with_our_thresholds(run: LanguageRun, settings: Settings, in_order: bool) -> list[Conclusion]:
    """Return lines with our readings of "all" and "most", and the order that the detector finds."""
    at_syntax = run.checkpoints.get("syntax", run.checkpoints["end"]).reading
    end = run.checkpoints["end"].reading
    best = float(max(run.readings["syntax"]))
    right = "right answers when syntax is reached"
    order = "the detector finds syntax, then semantics (1: yes)"
    return [
        Conclusion("syntax, best reading", ">=", settings.syntax_at, best, threshold="ours"),
        Conclusion(right, "<=", settings.few, at_syntax.semantics, threshold="ours"),
        Conclusion("syntax at the end", ">=", settings.syntax_at, end.syntax, threshold="ours"),
        Conclusion("most answers right at the end", ">=", settings.most, end.semantics, threshold="ours"),
        Conclusion(order, "==", 1.0, float(in_order), threshold="ours"),
    ]


def _unseen(run: LanguageRun, settings: Settings) -> list[Conclusion]:
    if "held-out semantics" not in run.readings:
        return []
    measured = float(run.readings["held-out semantics"].iloc[-1])
    return [Conclusion("semantics on held-out paraphrases", ">=", settings.most, measured, claimed=False)]


def _numbers(run: LanguageRun, settings: Settings, groups: dict[str, Group]) -> dict[str, float]:
    steps = {
        f"epoch of the onset of {name}": group.begins and group.begins[0] for name, group in groups.items()
    }
    steps |= {
        f"epoch of the completion of {name}": group.stages[0].completion if group.stages else None
        for name, group in groups.items()
    }
    startup = {f"fraction of {name} learned during start-up": group.startup for name, group in groups.items()}
    return {
        "examples": float(len(run.corpus.training)),
        "epoch at which syntax is reached": run.first("syntax", settings.syntax_at),
        f"epoch at which semantics reaches {settings.few}": run.first("semantics", settings.few),
        "accuracy of the most frequent answer per type": run.corpus.most_frequent,
        **startup,
        **{name: float("nan") if step is None else step for name, step in steps.items()},
    }


def _figures(run: LanguageRun, source: str) -> tuple[Figure, ...]:
    frame = run.readings

    def curves(names: dict[str, str]) -> tuple[Series, ...]:
        return tuple(
            Series.of(label, frame["epoch"], frame[name]) for name, label in names.items() if name in frame
        )

    accuracies = {
        "syntax": "right type",
        "semantics": "right answer",
        "held-out syntax": "right type, held-out paraphrases",
        "held-out semantics": "right answer, held-out paraphrases",
    }
    losses = {"type_loss": "-log p(type)", "answer_loss": "-log p(answer | type)"}
    return (
        plot(f"Answers over training ({run.corpus.source})", ("epoch", "share"), *curves(accuracies), log=""),
        plot(f"The loss in two parts ({run.corpus.source})", ("epoch", "nats"), *curves(losses), log=""),
    )


@claim(
    "P3/figure-5",
    plain="""On made-up facts a small GPT-2 learns the type of an answer before the answer (quick
        profile). On CounterFact a small one does not: most answers are right by the time the types are
        (full profile).""",
    place="Section 5, Figure 5",
    quote="all predictions meet syntactic requirements, but most remain semantically incorrect",
    title="Syntax before semantics in a GPT-2 trained on CounterFact",
    statement=STATEMENT.format("CounterFact"),
    seconds=9.0,
    **on_counterfact(BARS, full={"few": 0.5}),
)
@needs_adapters
def counterfact(settings: Settings, seed: int) -> Finding:
    return two_stages(settings, seed, "CounterFact")


@claim(
    "P3/figure-7",
    plain="""A small GPT-2 learns types before answers on synthetic two-hop facts; HotpotQA itself is
        untested.""",
    place="Appendix C.2, Figure 7",
    quote="""we first verify the two-stage learning of syntax and semantics under this question-answering
        dataset""",
    title="Syntax before semantics in a GPT-2 trained on HotpotQA",
    statement=STATEMENT.format("HotpotQA"),
    seconds=9.0,
    **on_hotpotqa(BARS),
)
@needs_adapters
def hotpotqa(settings: Settings, seed: int) -> Finding:
    return two_stages(settings, seed, "HotpotQA")
