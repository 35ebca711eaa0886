"""What compression kept and what it costs, as a table, as JSON and as warnings."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any

from attangent._core.display import brief, table_html
from attangent._core.plots import finished
from attangent.compression.fidelity import Fidelity
from attangent.compression.quiz.answers import Answer, answer_all
from attangent.compression.size_search import Attempt

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Picture

    from attangent.compression.compressor import Compressor
    from attangent.compression.quiz.quiz import Quiz
    from attangent.compression.result import CompressedPrompt


_FEW = 10
"""Fewer questions than this do not say much."""
_EXPORTED = 0.9
"""An export that keeps a smaller part of the adapter's answers is warned of."""


@dataclass(frozen=True, repr=False)
class Report:
    """What compression kept and what it costs. Sizes are in tokens of a KV cache, times in seconds."""

    prompt_tokens: int
    size: int
    method: str
    fidelity: Fidelity
    seconds: dict[str, float]
    bytes_of_cache: int
    bytes_of_states: int
    answers: tuple[Answer, ...] = ()
    """The user's questions."""
    own: tuple[Answer, ...] = ()
    """Questions made from the prompt that it answers and that are not answered without it."""
    goal: dict[str, Any] = field(default_factory=dict)
    """Where a goal was given: whether it was met, why not, and all sizes that were tried."""
    exported: dict[str, Any] = field(default_factory=dict)
    """The export, which has masses of one: folder, size, steps of training, answers kept, ratio, attempts."""
    pieces: int = 1
    """How many pieces the prompt was read in."""
    decode: dict[str, float] = field(default_factory=dict)
    """Seconds of one decoding step with the full prompt, the compressed one and none."""
    distilled: int = 0
    """Steps of training after the closed form."""

    def __repr__(self) -> str:
        tokens = f"{self.prompt_tokens} -> {self.size}"
        return brief(self, tokens=tokens, kept=self.kept, asked=len(self.own), ratio=self.fidelity.ratio)

    def _repr_html_(self) -> str:
        columns = ("", "full prompt", "compressed", "no prompt")
        return table_html(self.headline, columns, self.rows(), self.warnings)

    def plot(self, path: str | PathLike[str] | None = None) -> "Picture":
        """Draw the sizes that were tried, else the shares kept; also to a file, where one is named."""
        from attangent.compression.curve import draw_curve, draw_shares

        tried = [Attempt(**attempt) for attempt in self.goal.get("attempts", ())]
        unfitted = {int(size): share for size, share in self.goal.get("unfitted", {}).items()}
        drawn = draw_curve(tried, unfitted=unfitted) if tried else draw_shares(self)
        return finished(drawn, path)

    @property
    def lost(self) -> list[Answer]:
        return [answer for answer in self.answers if answer.lost]

    @property
    def kept(self) -> int:
        """How many of the prompt's own questions are still answered."""
        return sum(not answer.lost for answer in self.own)

    @property
    def headline(self) -> str:
        """The first line: what the user judges by."""
        if not self.own:
            return "answers kept: no question could be made that the prompt answers; judge by the table"
        return f"answers kept: {self.kept} of {len(self.own)}"

    @property
    def course(self) -> str:
        """What was done: how much smaller the prompt became, how, and what else was tried."""
        if self.size >= self.prompt_tokens:
            said = f"the prompt stays as it is, {self.prompt_tokens} tokens"
        else:
            times = self.bytes_of_cache / max(1, self.bytes_of_states)
            said = f"{times:.1f} times smaller: {self.size} tokens for each head"
        if self.distilled:
            said += f", trained for {self.distilled} steps"
        tried = [_tried(Attempt(**attempt)) for attempt in self.goal.get("attempts", ())]
        return f"{said}; tried: {', '.join(tried)}" if len(tried) > 1 else said

    @property
    def export_line(self) -> str:
        """What the export keeps; empty where there is none."""
        if not self.exported:
            return ""
        size, steps = self.exported["size"], self.exported["distilled"]
        trained = f", trained for {steps} steps" if steps else ""
        kept = f"answers kept: {self.exported['kept']} of {len(self.own)}, " if self.own else ""
        ratio = max(0.0, self.exported["ratio"])
        return (
            f"{self.exported['folder']}: {size} tokens for each head{trained}; {kept}relative KL {ratio:.3f}"
        )

    @property
    def _advice(self) -> str:
        return "try a larger size" if self.distilled else "try a larger size or --distill 24"

    @property
    def warnings(self) -> list[str]:
        found = []
        if self.goal and not self.goal["met"]:
            found.append(f"the goal was not met: {self.goal['stopped']}; {self.headline}")
        if self.goal and self.size >= self.prompt_tokens > 0 and len(self.goal["attempts"]) > 1:
            found.append("no smaller size keeps enough of the answers: ask for less, such as --keep 0.8")
        if 0 < len(self.own) < _FEW:
            found.append(
                f"only {len(self.own)} questions count, so that the share of answers kept is rough: add your "
                "own with --ask, with the words of their answers"
            )
        if self.exported and self.exported["kept"] < _EXPORTED * self.kept:
            found.append(
                f"the export keeps {self.exported['kept']} answers, the adapter {self.kept}: a plain cache "
                "has the same size in every head and no masses; use the adapter, or a larger --size"
            )
        if self.fidelity.ratio > 0.5:
            found.append(
                f"only {1 - self.fidelity.ratio:.0%} of the prompt's effect was kept: {self._advice}"
            )
        if self.lost:
            found.append(
                f"{len(self.lost)} of {len(self.answers)} answers were lost, the first to "
                f"{self.lost[0].question!r}: {self._advice}"
            )
        return found

    def rows(self) -> list[tuple[str, str, str, str]]:
        """A table: what is measured, with the full prompt, the compressed one, none."""
        d, loss, agree = self.fidelity.divergence, self.fidelity.loss, self.fidelity.agreement
        rows = [
            *([("own questions", str(len(self.own)), str(self.kept), "0")] if self.own else []),
            ("tokens in front", str(self.prompt_tokens), str(self.size), "0"),
            ("KL from the full prompt", "0", f"{d['compressed']:.4f}", f"{d['none']:.4f}"),
            ("the same, relative", "0", f"{self.fidelity.ratio:.3f}", "1"),
            ("loss on its text", *(f"{loss[name]:.3f}" for name in ("full", "compressed", "none"))),
            ("same next token", "100%", f"{agree['compressed']:.1%}", f"{agree['none']:.1%}"),
            ("bytes", f"{self.bytes_of_cache:,}", f"{self.bytes_of_states:,}", "0"),
        ]
        if self.decode:
            times = (f"{1e3 * self.decode[name]:.1f} ms" for name in ("full", "compressed", "none"))
            rows.append(("one decoding step", *times))
        rows += [(answer.question, answer.full, answer.compressed, answer.none) for answer in self.answers]
        return rows

    def as_json(self) -> dict[str, Any]:
        return {
            **asdict(self),
            "ratio": self.fidelity.ratio,
            "kept": self.kept,
            "asked": len(self.own),
            "answers": [asdict(answer) | {"lost": answer.lost} for answer in self.answers],
            "own": [asdict(answer) | {"lost": answer.lost} for answer in self.own],
            "warnings": self.warnings,
        }


def _tried(attempt: Attempt) -> str:
    kept = f"{attempt.kept} of {attempt.asked}" if attempt.asked else f"{attempt.share:.0%} of next tokens"
    return f"{attempt.size}{' trained' if attempt.distilled else ''} ({kept})"


def report_of(
    job: "Compressor",
    compressed: "CompressedPrompt",
    questions: Sequence[tuple[str, str | None]] = (),
    quiz: "Quiz | None" = None,
) -> Report:
    """What a compressed prompt keeps: own answers, the user's, and the effect on other text."""
    answers, read = (), partial(job.reader.question, job.tokenizer)
    if questions:
        with job.stages.stage("asking", len(questions)) as done:
            asked = (job.model, job.tokenizer, questions, read, job.cache, compressed.states)
            answers = answer_all(*asked, progress=done)
    return Report(
        prompt_tokens=len(job.ids),
        size=compressed.size,
        method=compressed.method,
        fidelity=job.fidelity(compressed),
        own=job.quiz_answers(compressed, quiz),
        seconds={name: round(value, 3) for name, value in job.stages.seconds.items()},
        bytes_of_cache=job.cache.number_of_bytes,
        bytes_of_states=compressed.number_of_bytes,
        answers=answers,
        distilled=compressed.distilled,
    )
