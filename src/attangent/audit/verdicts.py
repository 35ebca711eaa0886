"""The rules by which lines add up to a verdict."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from attangent.audit.evidence import Conclusion, Hypothesis


class Verdict(StrEnum):
    """What a measurement says of a statement."""

    HOLDS = "holds"
    """The hypotheses were met, every line was measured to hold, and at least one could have failed."""
    MEASURED = "measured"
    """A hypothesis was out of reach or the setting is another one, yet every line was measured to hold."""
    VIOLATED = "violated"
    """A line fails with the hypotheses met, or in the limit that the statement speaks of."""
    NOT_REPRODUCED = "not reproduced"
    """A line fails, but outside the hypotheses or in another setting than the paper's."""
    OPEN = "open"
    """Nothing could be decided at this size."""
    CRASHED = "crashed"
    """The check raised; that says nothing about the statement."""

    @classmethod
    def combine(cls, verdicts: Iterable["Verdict"]) -> "Verdict":
        """The verdict over seeds or parts: one counter-example decides, then one that is undecided."""
        found = set(verdicts)
        order = (cls.VIOLATED, cls.NOT_REPRODUCED, cls.OPEN, cls.MEASURED, cls.HOLDS, cls.CRASHED)
        return next((verdict for verdict in order if verdict in found), cls.OPEN)

    @property
    def failed(self) -> bool:
        """Whether a line of the statement was measured to fail."""
        return self in (Verdict.VIOLATED, Verdict.NOT_REPRODUCED)

    @property
    def name_in_code(self) -> str:
        """The verdict as one word, for style sheets and addresses."""
        return self.value.replace(" ", "-")


@dataclass(frozen=True)
class Judgement:
    """The verdict on one part of a statement; `empty` where its lines hold but none could have failed."""

    verdict: Verdict
    empty: bool = False


def judge(lines: Sequence[Conclusion], hypotheses: Sequence[Hypothesis], differs: Sequence[str]) -> Judgement:
    """The verdict that the deciding lines of one part give under these hypotheses.

    `differs` says in what the run differs from the paper's setting: each counts as a hypothesis not met.
    """
    kept = [line.kept for line in lines]
    missed = [hypothesis for hypothesis in hypotheses if not hypothesis.met]
    if False in kept:
        return Judgement(Verdict.VIOLATED if _refutes(lines, missed, differs) else Verdict.NOT_REPRODUCED)
    if None in kept or not lines:
        return Judgement(Verdict.OPEN)
    if all(line.cannot_fail for line in lines):
        return Judgement(Verdict.OPEN, empty=True)
    return Judgement(Verdict.MEASURED if missed or differs else Verdict.HOLDS)


def _refutes(lines: Sequence[Conclusion], missed: Sequence[Hypothesis], differs: Sequence[str]) -> bool:
    if differs:
        return False
    if not missed:
        return True
    in_limit = all(hypothesis.in_limit for hypothesis in missed)
    return in_limit and any(line.kept is False and line.trend for line in lines)


def judge_parts(
    conclusions: Sequence[Conclusion], hypotheses: Sequence[Hypothesis], differs: Sequence[str]
) -> dict[str, Judgement]:
    """A judgement for each part that has a deciding line; lines without a part are one of their own."""
    deciding = [line for line in conclusions if line.decides]
    return {
        part: judge(
            [line for line in deciding if line.part == part],
            [hypothesis for hypothesis in hypotheses if hypothesis.part in ("", part)],
            differs,
        )
        for part in dict.fromkeys(line.part for line in deciding)
    }


def whole(parts: Iterable[Judgement]) -> Verdict:
    """The verdict on the whole: parts that hold but cannot fail count only where there are no others."""
    found = list(parts)
    telling = [part for part in found if not part.empty] or found
    return Verdict.combine(part.verdict for part in telling)
