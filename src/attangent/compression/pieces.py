"""Long prompts piece by piece: each is read behind the compressed pieces before it, and their states add up.

Positions go on from piece to piece while all of them fit into the model's context. In a longer prompt every
piece stands at position 0 and the keys of those before are rotated back, so that distances stay as they are
up to the context's end. Layers with a sliding window keep the last piece only: they could not see the others.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.attention import PrefixState, RaggedState
from attangent.compression.compressor import Compressor
from attangent.compression.export import Rotation
from attangent.compression.fit import compacted_states
from attangent.compression.methods import DEFAULT
from attangent.compression.packing import packed, unpacked
from attangent.compression.problem import Piece, PromptState
from attangent.compression.progress import Progress
from attangent.compression.prompt import fingerprint, longest_piece, read_prompt, sliding_layers
from attangent.compression.quiz.quiz import Quiz
from attangent.compression.result import CompressedPrompt, joined_states
from attangent.compression.resume_cache import Work
from attangent.compression.size_search import Goal, reach
from attangent.compression.text import LENGTH, SINKS, Calibration

_PIECE = 1024
_FEWEST_QUESTIONS = 6


@dataclass(frozen=True)
class LongPrompt:
    """A prompt too long to be read at once, and how it is cut."""

    ids: Tensor
    roles: tuple[str, ...]
    piece: int
    rotated: bool
    context: int | None

    @classmethod
    def of(cls, model: Any, tokenizer: Any, prompt: Any, piece: int | None = None) -> "LongPrompt":
        ids, reader = read_prompt(tokenizer, prompt)
        context = getattr(model.config, "max_position_embeddings", None)
        most = longest_piece(model, LENGTH)
        if most is not None and most < LENGTH // 2:
            raise AttangentError(
                f"the model reads {most + LENGTH} tokens at once, expected at least {LENGTH + LENGTH // 2}: "
                "a piece of the prompt and text behind it must fit; take a model with a longer context"
            )
        size = check_size("piece", piece or min(_PIECE, most or _PIECE), least=LENGTH // 2)
        if most is not None and size > most:
            raise AttangentError(
                f"piece is {size}, expected at most {most} tokens: more cannot be read at once"
            )
        rotated = context is not None and len(ids) + LENGTH > context
        return cls(ids, reader.roles, size, rotated, context)

    @property
    def pieces(self) -> list[Tensor]:
        return list(self.ids.split(self.piece))


def compress_pieces(
    model: Any, tokenizer: Any, prompt: Any, size: int = 64, method: str = DEFAULT, **options: Any
) -> CompressedPrompt:
    """A prompt of any length: `size` virtual tokens for each KV head and piece, in bounded memory.

    options: piece, calibration, seed, progress and folder, as `PieceRun` takes them.
    """
    run = PieceRun(model, tokenizer, prompt, size, method, **options)
    found = run.compressed()
    run.work.finish()
    return found


@dataclass
class PieceRun:
    """The pieces of one prompt, one after another.

    piece: tokens of a piece, 1024 or what can be read at once by default. With a folder a run that was cut
    off goes on behind the last piece that was finished. `done` is called with the job of each piece.
    goal: with one, each piece gets the smallest size that keeps enough answers to its own questions, and
    `size` does not count. questions: how many are made from all pieces together for `quiz`; 0 for none.
    total: the most tokens for each head that all pieces may have together; when there are more, they are
    compacted to so many. None lets them add up.
    """

    model: Any
    tokenizer: Any
    prompt: Any
    size: int = 64
    method: str = DEFAULT
    piece: int | None = None
    calibration: Sequence[str] | None = None
    seed: int = 0
    progress: Progress = lambda stage, done, total: None
    folder: Path | None = None
    done: Callable[[Compressor], Any] = lambda job: None
    goal: Goal | None = None
    questions: int = 0
    total: int | None = None
    long: LongPrompt = field(init=False)
    last: Compressor | None = field(init=False, default=None)
    quiz: Quiz = field(init=False, default=Quiz((), (), ()))
    sizes: list[int] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        if self.total is not None:
            check_size("total", self.total, least=SINKS + 1)
        self.long = LongPrompt.of(self.model, self.tokenizer, self.prompt, self.piece)
        self.rotation = Rotation.of(self.model) if self.long.rotated else None
        self.sliding = sliding_layers(self.model)

    @cached_property
    def work(self) -> Work:
        about = [fingerprint(self.tokenizer), self.long.ids.tolist(), self.long.piece]
        goal = None if self.goal is None else asdict(self.goal)
        asked = [self.size, self.method, self.seed, goal, self.questions, self.total]
        return Work(self.folder, [*about, *asked])

    def compressed(self) -> CompressedPrompt:
        """All pieces compressed.

        Afterwards `last` is the job of the last one, `sizes` has the size of each, and `quiz` the questions
        that each piece answers while it stands whole behind the compressed ones before it.
        """
        parts: list[_Part] = []
        quizzes: list[Quiz] = []
        for count, ids in enumerate(self.long.pieces):
            if parts:
                length = parts[-1].length
                parts = [part.behind(length, self.rotation, self.long, self.sliding) for part in parts]
            self.last = self._job(count, ids, _joined(parts))
            kept = self.work.tensors(f"piece-{count}", partial(self._fitted, self.last))
            parts.append(_Part(unpacked(kept), len(ids), len(ids)))
            self.sizes.append(_size_of(parts[-1].states))
            quizzes.append(self._quiz(count, self.last))
            parts = self._within_total(count, parts)
            self.progress("pieces", count + 1, len(self.long.pieces))
        offset = parts[-1].length if self.long.rotated else len(self.long.ids)
        self.quiz = Quiz.joined(quizzes)
        about = (self.method, self.long.roles, fingerprint(self.tokenizer))
        size = sum(_size_of(part.states) for part in parts)
        return CompressedPrompt(_joined(parts), offset, size, *about)

    def _within_total(self, count: int, parts: "list[_Part]") -> "list[_Part]":
        """The parts as they are, or as one compacted part where they have too many tokens."""
        states = _joined(parts)
        if self.total is None or self.last is None or _size_of(states) <= self.total:
            return parts
        read = torch.cat(self.long.pieces[: count + 1])
        text = Calibration.of([*self.last.repeated_from(read), *self.last.other_text()])
        make = partial(self._compacted, states, self.last.cache.length, text)
        kept = unpacked(self.work.tensors(f"compacted-{count}", make))
        return [_Part(kept, parts[-1].length, parts[0].far)]

    def _compacted(self, states: dict[str, PromptState], offset: int, text: Calibration) -> dict[str, Tensor]:
        assert self.total is not None
        return packed(compacted_states(self.model, states, offset, text, self.total))

    def _job(self, count: int, ids: Tensor, before: dict[str, PromptState]) -> Compressor:
        start = 0 if self.long.rotated else count * self.long.piece
        options: dict[str, Any] = {"seed": self.seed, "piece": Piece(ids, start, before)}
        if self.questions:
            options["questions"] = max(_FEWEST_QUESTIONS, self.questions // len(self.long.pieces))
        return Compressor(self.model, self.tokenizer, self.prompt, self.calibration, **options)

    def _fitted(self, job: Compressor) -> dict[str, Tensor]:
        size = self.size if self.goal is None else reach(job, self.goal, self.method).found.size
        found = job.fit_piece(size, self.method)
        self.done(job)
        return packed(found)

    def _quiz(self, count: int, job: Compressor) -> Quiz:
        if not self.questions:
            return Quiz((), (), ())
        return Quiz.read(self.work.notes(f"quiz-{count}", lambda: asdict(job.quiz)))


@dataclass(frozen=True)
class _Part:
    """The states of one piece, its length, and how far its first token is from what comes next."""

    states: dict[str, PromptState]
    length: int
    far: int

    def behind(self, length: int, rotation: Rotation | None, long: LongPrompt, sliding: set[str]) -> "_Part":
        """This part when another piece of `length` tokens follows."""
        states = {name: state for name, state in self.states.items() if name not in sliding}
        if rotation is None or long.context is None:
            return replace(self, states=states)
        room = max(0, long.context - LENGTH - long.piece - self.far)
        by = min(length, room)
        moved = {name: _moved(state, rotation, -by) for name, state in states.items()}
        return _Part(moved, self.length, self.far + by)


def _size_of(states: Mapping[str, PromptState]) -> int:
    """The virtual tokens for each KV head, in the mean."""
    sizes = [
        size
        for state in states.values()
        for size in (RaggedState.from_state(state) if isinstance(state, PrefixState) else state).sizes
    ]
    return round(sum(sizes) / len(sizes))


def _joined(parts: Sequence[_Part]) -> dict[str, PromptState]:
    found: dict[str, PromptState] = {}
    for part in parts:
        found = joined_states(found, part.states)
    return found


def _moved(state: PromptState, rotation: Rotation, by: int) -> PromptState:
    whole = RaggedState.from_state(state) if isinstance(state, PrefixState) else state
    keys = rotation.moved(whole.keys.detach(), by)
    return RaggedState(keys, whole.Z.detach(), whole.mass.detach(), whole.sizes, whole.softcap)
