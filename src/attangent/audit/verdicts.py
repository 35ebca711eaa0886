"""How the lines of a finding add up to a verdict."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from attangent.audit.evidence import Conclusion, Hypothesis


class Verdict(StrEnum):
    """The verdict of a measurement on a statement.

    Attributes:
        HOLDS: The hypotheses are met, every line holds, and at least one could have failed.
        MEASURED: Every line holds, but a hypothesis is out of reach or the setting differs from the paper's.
        VIOLATED: A line fails although the hypotheses are met, or in the limit of the statement.
        NOT_REPRODUCED: A line fails, but outside the hypotheses or in another setting than the paper's.
        SMALLER: A large experiment was run in a much smaller setting, which decides nothing about the paper.
        OPEN: The measurements at this size decide nothing.
        CRASHED: The check raised an error, which says nothing about the statement.

    Example:
        >>> Verdict.combine([Verdict.HOLDS, Verdict.OPEN]).value
        'open'
    """

    HOLDS = "holds"
    MEASURED = "measured"
    VIOLATED = "violated"
    NOT_REPRODUCED = "not reproduced"
    SMALLER = "smaller setting"
    OPEN = "open"
    CRASHED = "crashed"

    @classmethod
    def combine(cls, verdicts: Iterable["Verdict"]) -> "Verdict":
        """Return the verdict over seeds or parts: one counter-example decides, then one undecided."""
        present = set(verdicts)
        order = (
            cls.VIOLATED,
            cls.NOT_REPRODUCED,
            cls.OPEN,
            cls.SMALLER,
            cls.MEASURED,
            cls.HOLDS,
            cls.CRASHED,
        )
        return next((verdict for verdict in order if verdict in present), cls.OPEN)

    @property
    def failed(self) -> bool:
        """Whether a line of the statement fails."""
        return self in (Verdict.VIOLATED, Verdict.NOT_REPRODUCED)

    @property
    def name_in_code(self) -> str:
        """The verdict as one word, for style sheets and addresses."""
        return self.value.replace(" ", "-")


@dataclass(frozen=True)
class Judgement:
    """The verdict on one part of a statement.

    It is `trivial` if its lines hold but none could have failed, and `estimated` if it failed by estimates
    only: fitted exponents or intervals.
    """

    verdict: Verdict
    trivial: bool = False
    estimated: bool = False


def judge(
    lines: Sequence[Conclusion],
    hypotheses: Sequence[Hypothesis],
    differs: Sequence[str],
    smaller: str = "",
) -> Judgement:
    """Return the verdict of the deciding lines of one part under these hypotheses.

    Each entry of `differs` is a difference from the paper's setting and counts as an unmet hypothesis.
    `smaller` names the stand-in of a large experiment.
    """
    kept = [line.kept for line in lines]
    unmet = [hypothesis for hypothesis in hypotheses if not hypothesis.met]
    if smaller and any(outcome is not None for outcome in kept):
        return Judgement(Verdict.SMALLER)
    failed = [line for line in lines if line.kept is False]
    refuting = [] if differs else _refuting(failed, unmet)
    if failed:
        verdict = Verdict.VIOLATED if refuting else Verdict.NOT_REPRODUCED
        return Judgement(verdict, estimated=all(line.is_estimate for line in refuting or failed))
    if None in kept or not lines:
        return Judgement(Verdict.OPEN)
    if all(line.cannot_fail for line in lines):
        return Judgement(Verdict.OPEN, trivial=True)
    return Judgement(Verdict.MEASURED if unmet or differs else Verdict.HOLDS)


def _refuting(failed: Sequence[Conclusion], unmet: Sequence[Hypothesis]) -> list[Conclusion]:
    """Return the failed lines that refute the statement; only a trend does so in a limit."""
    if not unmet:
        return list(failed)
    in_limit = all(hypothesis.in_limit for hypothesis in unmet)
    return [line for line in failed if in_limit and line.trend]


SEEDS_OF_AN_ESTIMATE = 3
"""How many seeds must agree before fitted exponents or intervals refute a statement."""


def over_seeds(judgements: Sequence[Judgement]) -> Judgement:
    """Return the judgement of one part over all seeds.

    One counter-example decides. Estimates decide if all seeds agree, and refute if these are at least three.
    """
    informative = [judgement for judgement in judgements if not judgement.trivial] or judgements
    verdict = Verdict.combine(judgement.verdict for judgement in informative)
    agreeing = [judgement for judgement in informative if judgement.verdict is verdict]
    needed = SEEDS_OF_AN_ESTIMATE if verdict is Verdict.VIOLATED else 1
    estimated = verdict.failed and all(judgement.estimated for judgement in agreeing)
    if estimated and len(agreeing) < max(needed, len(judgements)):
        return Judgement(Verdict.OPEN)
    return Judgement(verdict, trivial=all(judgement.trivial for judgement in judgements))


def judge_parts(
    conclusions: Sequence[Conclusion],
    hypotheses: Sequence[Hypothesis],
    differs: Sequence[str],
    smaller: str = "",
) -> dict[str, Judgement]:
    """Judge each part that has a deciding line; lines without a part form one part together."""
    deciding = [line for line in conclusions if line.decides]
    return {
        part: judge(
            [line for line in deciding if line.part == part],
            [hypothesis for hypothesis in hypotheses if hypothesis.part in ("", part)],
            differs,
            smaller,
        )
        for part in dict.fromkeys(line.part for line in deciding)
    }


def overall(parts: Iterable[Judgement]) -> Verdict:
    """Return the verdict on the statement; parts that cannot fail count only if there are no others."""
    judgements = list(parts)
    informative = [judgement for judgement in judgements if not judgement.trivial] or judgements
    return Verdict.combine(judgement.verdict for judgement in informative)
