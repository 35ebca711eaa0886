"""The report of a compression: a table, JSON, warnings and pictures."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

from attangent._core.display import brief, table_html
from attangent._core.plots import FAINT, bars, finished, in_style, one_panel
from attangent.compression.fidelity import Fidelity
from attangent.compression.matching import in_words
from attangent.compression.questions import unasked_line
from attangent.compression.quiz import Answer, facts_kept, kept_interval, rough_share

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Lost questions and unasked parts that are printed; the report has all.
_SHOWN = 5
# Warn of an export that keeps a smaller fraction of the adapter's answers.
_EXPORTED = 0.9


@dataclass(frozen=True)
class Attempt:
    """One size that was tried.

    If the prompt has too few questions, `asked` is 0 and `share` is the fraction of next tokens that are the
    same as with the full prompt.

    Attributes:
        size: Average number of tokens per head.
        distilled: Steps of training.
        kept: Answers that survived.
        asked: Questions.
        share: Fraction of the answers that survived.
        bytes: Memory of the states.
        seconds: Time since the search began.
    """

    size: int
    distilled: int
    kept: int
    asked: int
    share: float
    bytes: int
    seconds: float

    def __str__(self) -> str:
        kept = f"{self.kept} of {self.asked}" if self.asked else f"{self.share:.0%} of next tokens"
        return f"{self.size}{' trained' if self.distilled else ''} ({kept})"


@dataclass(frozen=True, repr=False)
class Report:
    """The report of a compression: which answers it kept and what it costs.

    Attributes:
        prompt_tokens: Tokens of the prompt.
        size: Average number of virtual tokens per head.
        method: Name of the compression method.
        fidelity: Predictions on held-out text.
        seconds: Seconds per stage.
        bytes_of_cache: Memory of the prompt's KV cache.
        bytes_of_states: Memory of the states.
        answers: Answers to the user's questions.
        own: Answers to questions made from the prompt, which it answers and which are not answered without.
        unasked: Parts of the prompt on which no question counts.
        candidates: Facts that were asked about, answered or not.
        goal: With a search: whether the goal was met, why not, and all sizes tried.
        exported: The export: folder, size, steps of training, answers kept, ratio and attempts.
        pieces: Number of pieces in which the prompt was read.
        decode: Seconds per decoding step with the full prompt, the compressed one and none.
        distilled: Steps of training after the closed form.
        resumed: Whether an interrupted run was resumed.
    """

    prompt_tokens: int
    size: int
    method: str
    fidelity: Fidelity
    seconds: dict[str, float]
    bytes_of_cache: int
    bytes_of_states: int
    answers: tuple[Answer, ...] = ()
    own: tuple[Answer, ...] = ()
    unasked: tuple[str, ...] = ()
    goal: dict[str, Any] = field(default_factory=dict)
    exported: dict[str, Any] = field(default_factory=dict)
    pieces: int = 1
    decode: dict[str, float] = field(default_factory=dict)
    distilled: int = 0
    resumed: bool = False
    candidates: int = 0

    def __repr__(self) -> str:
        tokens = f"{self.prompt_tokens} -> {self.size}"
        return brief(self, tokens=tokens, kept=self.kept, asked=self.asked, ratio=self.fidelity.ratio)

    def _repr_html_(self) -> str:
        columns = ("", "full prompt", "compressed", "no prompt")
        return table_html(self.headline, columns, self.rows(), self.warnings)

    def plot(self, path: str | PathLike[str] | None = None) -> "Figure":
        """Draw the sizes that were tried, or else the shares kept.

        Args:
            path: Also save the figure to this file.

        Returns:
            The figure.
        """
        figure = draw_curve(self.attempts) if self.attempts else draw_shares(self)
        return finished(figure, path)

    @property
    def attempts(self) -> list[Attempt]:
        """Return the sizes that were tried."""
        return [Attempt(**attempt) for attempt in self.goal.get("attempts", ())]

    @property
    def lost(self) -> list[Answer]:
        """Return the user's questions that are no longer answered."""
        return [answer for answer in self.answers if answer.lost]

    @property
    def kept(self) -> int:
        """Return how many of the prompt's own facts are still answered."""
        return sum(facts_kept(self.own).values())

    @property
    def asked(self) -> int:
        """Return how many facts of the prompt are asked for."""
        return len(facts_kept(self.own))

    @property
    def details(self) -> list[str]:
        """Return lines on lost answers and on parts without a question that counts."""
        lost = [answer for answer in self.own if answer.lost]
        lines = [self._gain] if self.decode else []
        lines += [_wrong("lost", answer, answer.compressed) for answer in lost[:_SHOWN]]
        if len(lost) > _SHOWN:
            lines.append(f"and {len(lost) - _SHOWN} more lost; see report.json")
        if self.unasked:
            lines.append(unasked_line(self.unasked))
        missed = [answer for answer in self.answers if answer.expected and not answer.holds(answer.full)]
        lines += [_wrong("the full prompt misses", answer, answer.full) for answer in missed]
        return lines

    @property
    def _gain(self) -> str:
        """Return from which prompt length a decoding step is faster than with the full prompt."""
        per_token = (self.decode["full"] - self.decode["none"]) / self.prompt_tokens
        if per_token <= 0:
            return "a decoding step takes as long with the full prompt as without"
        tokens = max(0.0, self.decode["compressed"] - self.decode["none"]) / per_token
        rounded = float(f"{tokens:.2g}")
        return f"decoding is faster than with the full prompt from about {rounded:,.0f} tokens on"

    @property
    def headline(self) -> str:
        """Return the most important line: how many answers were kept."""
        if not self.own:
            return "facts kept: no question could be made that the prompt answers; see the table"
        return f"facts kept: {self.kept} of {self.asked}, {kept_interval(self.kept, self.asked)}"

    @property
    def course(self) -> str:
        """Return how much smaller the prompt became and which sizes were tried."""
        if self.size >= self.prompt_tokens:
            summary = f"the prompt stays unchanged, {self.prompt_tokens} tokens"
        else:
            times = self.bytes_of_cache / max(1, self.bytes_of_states)
            summary = f"{times:.1f} times smaller: {self.size} tokens per head"
        if self.distilled:
            summary += f", trained for {self.distilled} steps"
        tried = ", ".join(map(str, self.attempts))
        return f"{summary}; tried: {tried}" if len(self.attempts) > 1 else summary

    @property
    def rough(self) -> str:
        """Return why the share of facts kept is rough; empty if enough facts count."""
        return rough_share(self.asked, self.candidates)

    @property
    def export_line(self) -> str:
        """Return what the export keeps; empty without one."""
        if not self.exported:
            return ""
        steps = self.exported["distilled"]
        trained = f", trained for {steps} steps" if steps else ""
        kept = f"facts kept: {self.exported['kept']} of {self.asked}, " if self.own else ""
        ratio = max(0.0, self.exported["ratio"])
        size = f"{self.exported['size']} tokens per head{trained}"
        return f"{self.exported['folder']}: {size}; {kept}relative KL {ratio:.3f}"

    @property
    def warnings(self) -> list[str]:
        """Return what the user should know before relying on the result."""
        advice = "try a larger size" if self.distilled else "try a larger size or --distill 24"
        warnings = []
        if self.goal and not self.goal["met"]:
            warnings.append(f"the goal was not met: {self.goal['stopped']}; {self.headline}")
        if self.goal and self.size >= self.prompt_tokens > 0 and len(self.goal["attempts"]) > 1:
            warnings.append("no smaller size keeps enough of the answers; lower the goal, such as --keep 0.8")
        if self.rough:
            warnings.append(self.rough)
        if self.exported and self.exported["kept"] < _EXPORTED * self.kept:
            warnings.append(
                f"the export keeps {self.exported['kept']} answers, the adapter {self.kept}: a plain cache "
                "has the same size in every head and no masses; use the adapter or a larger --size"
            )
        if self.fidelity.ratio > 0.5:
            warnings.append(f"only {1 - self.fidelity.ratio:.0%} of the prompt's effect was kept; {advice}")
        if self.lost:
            warnings.append(
                f"{len(self.lost)} of {len(self.answers)} answers were lost, the first to "
                f"{self.lost[0].question!r}; {advice}"
            )
        return warnings

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return the rows of a table: measure, full prompt, compressed prompt, no prompt.

        Returns:
            One tuple per row.
        """
        agree = self.fidelity.agreement
        rows = [
            *([("facts", str(self.asked), str(self.kept), "0")] if self.own else []),
            ("prompt tokens", str(self.prompt_tokens), str(self.size), "0"),
            ("effect of the prompt", "100%", f"{max(1 - self.fidelity.ratio, 0):.1%}", "0%"),
            ("same next token", "100%", f"{agree['compressed']:.1%}", f"{agree['none']:.1%}"),
            ("bytes", f"{self.bytes_of_cache:,}", f"{self.bytes_of_states:,}", "0"),
        ]
        # With a shorter prompt a step gains nothing; `details` says from which length it does.
        if self.decode and max(self.decode["compressed"], self.decode["none"]) < self.decode["full"]:
            full, compressed, none = (
                _milliseconds(self.decode[name]) for name in ("full", "compressed", "none")
            )
            rows.append(("one decoding step", full, compressed, none))
        rows += [(answer.question, answer.full, answer.compressed, answer.none) for answer in self.answers]
        return rows

    def as_json(self) -> dict[str, Any]:
        """Return everything as JSON data.

        Returns:
            The content of `report.json`.
        """
        return {
            **asdict(self),
            "ratio": self.fidelity.ratio,
            "kept": self.kept,
            "asked": self.asked,
            "questions": len(self.own),
            "answers": [asdict(answer) | {"lost": answer.lost} for answer in self.answers],
            "own": [asdict(answer) | {"lost": answer.lost} for answer in self.own],
            "warnings": self.warnings,
        }


def _wrong(what: str, answer: Answer, reply: str) -> str:
    return f"{what}: {answer.question} expected {in_words(answer.expected or '')!r}, got {reply!r}"


def _milliseconds(seconds: float) -> str:
    milliseconds = 1e3 * seconds
    return f"{milliseconds:.0f} ms" if milliseconds >= 10 else f"{milliseconds:.1f} ms"


@in_style
def draw_curve(
    attempts: Sequence[Attempt], keep: float | int | None = None, path: Path | None = None
) -> "Figure":
    """Draw the share of facts kept against the size, fitted and trained."""
    figure, axes = one_panel((6.0, 3.8))
    by_size = sorted(attempts, key=lambda attempt: attempt.size)
    for label, trained, marker in (("fitted", False, "o-"), ("trained", True, "s--")):
        some = [attempt for attempt in by_size if bool(attempt.distilled) == trained]
        if some:
            axes.plot([a.size for a in some], [a.share for a in some], marker, label=label)
    if keep is not None:
        axes.axhline(keep, color=FAINT, linewidth=1.0, label=f"goal {keep:g}")
    axes.set_xscale("log", base=2)
    sizes = sorted({attempt.size for attempt in attempts})
    axes.set_xticks(sizes, [str(size) for size in sizes])
    axes.minorticks_off()
    axes.set_ylim(0, 1.05)
    axes.set_xlabel("average tokens per head")
    axes.set_ylabel("facts kept" if by_size and by_size[0].asked else "same next token")
    axes.legend()
    return finished(figure, path)


@in_style
def draw_shares(report: Report) -> "Figure":
    """Draw what the compressed prompt kept, as shares of the full one."""
    shares = {"effect on other text": 1 - report.fidelity.ratio}
    shares["same next token"] = report.fidelity.agreement["compressed"]
    if report.own:
        shares = {"facts": report.kept / report.asked, **shares}
    figure, axes = one_panel((6.0, 1.1 + 0.4 * len(shares)))
    bars(axes, shares, f"share kept with {report.size} of {report.prompt_tokens} tokens")
    axes.set_xlim(0, 1.12)
    return figure
