"""Figures 5 and 7: a GPT-2 trained on facts answers with the right type first, then rightly."""

from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Figure, Finding, Series
from attangent.audit.registry import claim
from attangent.audit.checks import needs_adapters
from attangent.papers.p3_two_stage.claims.language_setting import (
    differences,
    from_the_paper,
    on_counterfact,
    on_hotpotqa,
    remark,
    trained,
)
from attangent.papers.p3_two_stage.facts.language import LanguageRun
from attangent.stages.detector.detector import StageDetector
from attangent.stages.detector.group import Group

STATEMENT = """A GPT-2 trained from scratch on {} first answers with the right type while most answers are
    wrong, and only later with the right answer in most cases, the types staying right. Syntax counts as
    reached at .95 of the answers."""
BARS = {"few": 0.3, "most": 0.85}


def two_stages(settings: Settings, seed: int, source: str) -> Finding:
    """Accuracies and the split of the loss over the epochs, and what the detector makes of them."""
    run = trained(settings, seed)
    detector = _detector(run)
    groups = {group.name: group for group in detector.findings.groups}
    at_syntax = run.checkpoints.get("syntax", run.checkpoints["end"])
    end = run.checkpoints["end"].reading
    in_order = detector.order == ("syntax", "semantics")
    conclusions = [
        Conclusion("semantics when syntax is reached", "<=", 0.5, at_syntax.reading.semantics),
        Conclusion("semantics at the end", ">=", 0.5, end.semantics),
        Conclusion(
            "syntax at the end less syntax when it was reached",
            ">=",
            -0.05,
            end.syntax - at_syntax.reading.syntax,
        ),
        *_by_marks_of_ours(run, settings, in_order),
        *_unseen(run, settings),
    ]
    return Finding(
        conclusions=tuple(conclusions),
        hypotheses=(from_the_paper(run, source),),
        differs=differences(run, settings),
        numbers=_numbers(run, settings, groups),
        figures=_figures(run, source),
        remark=remark(run, source),
    )


def _detector(run: LanguageRun) -> StageDetector:
    """Syntax by -log p(type), semantics by -log p(answer | type)."""
    detector = StageDetector(["syntax", "semantics"])
    columns = (run.readings[name].tolist() for name in ("epoch", "type_loss", "answer_loss"))
    for epoch, type_loss, answer_loss in zip(*columns, strict=True):
        detector.update(epoch, {"syntax": type_loss, "semantics": answer_loss})
    return detector


def _by_marks_of_ours(run: LanguageRun, settings: Settings, in_order: bool) -> list[Conclusion]:
    """What "all" and "most" are read as, and what the detector says."""
    at_syntax = run.checkpoints.get("syntax", run.checkpoints["end"]).reading
    end = run.checkpoints["end"].reading
    best = float(max(run.readings["syntax"]))
    return [
        Conclusion("syntax, best reading", ">=", settings.syntax_at, best, threshold="ours"),
        Conclusion(
            "few right answers when syntax is reached",
            "<=",
            settings.few,
            at_syntax.semantics,
            threshold="ours",
        ),
        Conclusion("syntax at the end", ">=", settings.syntax_at, end.syntax, threshold="ours"),
        Conclusion("most answers right at the end", ">=", settings.most, end.semantics, threshold="ours"),
        Conclusion(
            "the detector finds syntax, then semantics (1 if so)",
            "==",
            1.0,
            float(in_order),
            threshold="ours",
        ),
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
    startup = {f"share of {name} that falls in the start-up": group.startup for name, group in groups.items()}
    return {
        "examples": float(len(run.corpus.training)),
        "epoch at which syntax is reached": run.first("syntax", settings.syntax_at),
        f"epoch at which semantics reaches {settings.few}": run.first("semantics", settings.few),
        "the most frequent answer of each type": run.corpus.most_frequent,
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
        Figure(f"Answers over training ({run.corpus.source})", "epoch", "share", curves(accuracies)),
        Figure(f"The loss in two parts ({run.corpus.source})", "epoch", "nats", curves(losses)),
    )


@claim(
    "P3/figure-5",
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
    place="Appendix C.2, Figure 7",
    quote="we first verify the two-stage learning of syntax and semantics under this question-answering "
    "dataset",
    title="Syntax before semantics in a GPT-2 trained on HotpotQA",
    statement=STATEMENT.format("HotpotQA"),
    seconds=9.0,
    **on_hotpotqa(BARS),
)
@needs_adapters
def hotpotqa(settings: Settings, seed: int) -> Finding:
    return two_stages(settings, seed, "HotpotQA")
