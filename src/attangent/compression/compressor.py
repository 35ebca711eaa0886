"""One prompt in one model: what is worked out about it, each thing once."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent.adapters.products import Halved, fast_products
from attangent.attention import PrefixState
from attangent.attention.features import Anchors
from attangent.compression.attribution import token_scores
from attangent.compression.capture import PromptCache, prefill
from attangent.compression.distilling.distill import Distillation, distill_states, enough_steps
from attangent.compression.distilling.lessons import Lessons
from attangent.compression.export import Rotation
from attangent.compression.fidelity import Fidelity, measure_fidelity
from attangent.compression.fit import fit_states, unfitted_states
from attangent.compression.methods import DEFAULT, check_method, method_named
from attangent.compression.packing import packed, unpacked
from attangent.compression.problem import Piece, PromptState
from attangent.compression.progress import Progress, Stages
from attangent.compression.prompt import (
    Reader,
    check_length,
    check_model,
    fingerprint,
    read_prompt,
    tokens_of,
)
from attangent.compression.quiz.answers import Answer, Way
from attangent.compression.quiz.questions import AT_MOST, Question, questions_from
from attangent.compression.quiz.quiz import Quiz, Said, quiz_answers
from attangent.compression.report import Report, report_of
from attangent.compression.result import CompressedPrompt, joined_states
from attangent.compression.resume_cache import Work, digest
from attangent.compression.text import (
    BY_HALVES,
    IN_MANY_WAYS,
    LENGTH,
    REPEAT,
    Calibration,
    Turn,
    pieces,
    recitations,
    repetitions,
    sample,
    sentences_of,
    spread,
)

_PIECES = 16
_SENTENCES = 96
_COVERED = 0.8
"""The part of a prompt that its sentences must make up, to be enough for its scores."""
_FITTED_SENTENCES = 24
_FITTED, _HELD_OUT = "samples", "held out"
_SAMPLES_HELD_OUT = 8
_SHORTEST = 32
"""Samples behind a short prompt are no longer than this, or a quarter of it."""
_REPETITIONS = 48
_REPEATED_OF_LONG = 16
_FIRST_SIZE = 16


@dataclass
class Compressor:
    """One prompt in one model: read once, then fitted, distilled and measured at will.

    questions: the most that are made from the prompt; asked: the user's own, which count beside them where
    the words of their answers are given.
    """

    model: Any
    tokenizer: Any
    prompt: Any
    calibration: Sequence[str] | None = None
    samples: int = 12
    seed: int = 0
    progress: Progress | None = None
    folder: Path | None = None
    piece: Piece | None = None
    questions: int = AT_MOST
    asked: Sequence[tuple[str, str | None]] = ()
    ids: Tensor = field(init=False)
    reader: Reader = field(init=False)
    stages: Stages = field(init=False)
    _halved: Halved = field(init=False, default_factory=dict)
    _last: tuple[tuple[int, str], dict[str, PromptState]] | None = field(init=False, default=None)
    _answered: list[tuple[Any, Quiz, tuple[Answer, ...]]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        check_model(self.model, self.tokenizer)
        self.ids, self.reader = read_prompt(self.tokenizer, self.prompt)
        if self.piece is not None:
            self.ids = self.piece.ids
        check_length(self.model, len(self.ids), LENGTH)
        check_size("samples", self.samples)
        self.stages = Stages(self.progress)
        self.model.eval()

    @cached_property
    def work(self) -> Work:
        """What has been worked out so far, kept in the folder where there is one."""
        return Work(self.folder, self._key())

    def _key(self) -> list[Any]:
        """What decides all that a run works out."""
        config = self.model.config.to_dict()
        weights = self.model.get_input_embeddings().weight[:16].double().sum().item()
        about = [type(self.model).__name__, config.get("_name_or_path"), round(weights, 6)]
        given = None if self.calibration is None else list(self.calibration)
        return [*about, fingerprint(self.tokenizer), self.ids.tolist(), given, self.samples, self.seed]

    @cached_property
    def cache(self) -> PromptCache:
        """The prompt's keys and values."""
        with self.stages.stage("reading", len(self.ids)) as done:
            piece = self.piece or Piece(self.ids)
            return prefill(self.model, self.ids, done, start=piece.start, before=piece.before)

    @cached_property
    def text(self) -> Calibration:
        """What the states are fitted on."""
        if self.calibration is not None:
            given = [tokens_of(self.tokenizer, text) for text in self.calibration]
            return Calibration.of([piece for ids in given for piece in pieces(ids)])
        written = self._written[_FITTED]
        return Calibration.of([*written, *pieces(self.ids, LENGTH, _PIECES, self.seed)])

    @cached_property
    def repetitions(self) -> list[Turn]:
        """The prompt said again, piece by piece."""
        asked = self.reader.question(self.tokenizer, REPEAT)
        return repetitions(self.ids, asked, _REPETITIONS)

    def repeated_from(self, ids: Tensor) -> list[Tensor]:
        """Pieces of a longer text said again, spread over it."""
        asked = self.reader.question(self.tokenizer, REPEAT)
        return [turn.ids for turn in repetitions(ids, asked, _REPEATED_OF_LONG)]

    @cached_property
    def recitations(self) -> list[Turn]:
        """A chat's sentences, each asked for by its first half."""
        return self._recited(BY_HALVES)

    def _recited(self, ways: Sequence[str]) -> list[Turn]:
        if not self.reader.roles:
            return []
        read, question = (partial(f, self.tokenizer) for f in (tokens_of, self.reader.question))
        return recitations(spread(sentences_of(self._prose()), _SENTENCES), read, question, ways)

    @property
    def repeated(self) -> Calibration:
        """The repetitions as text."""
        return Calibration.of([turn.ids for turn in self.repetitions])

    @cached_property
    def scores(self) -> dict[str, Tensor]:
        """How much each head needs each token of the prompt to say its sentences."""
        return self.work.tensors("scores-by-sentences", self._scored)

    @property
    def scored_turns(self) -> list[Turn]:
        """What scores come from: the sentences, asked for; where these leave much out, repetitions too."""
        return [*self._missing, *self.recitations]

    @property
    def _missing(self) -> list[Turn]:
        """Repetitions, where the sentences leave much of the prompt out."""
        said = sum(len(turn.answer) for turn in self.recitations)
        return [] if said >= _COVERED * len(self.ids) else self.repetitions

    def _scored(self) -> dict[str, Tensor]:
        cache, turns = self.cache, self.scored_turns
        with self.stages.stage("scoring", len(turns)) as done, fast_products(self.model, self._halved):
            return token_scores(self.model, cache, turns, done).together()

    @cached_property
    def recall_text(self) -> Calibration:
        """What states by scores are fitted on: repetitions, some sentences asked for, and other text."""
        turns = [*self.repetitions, *spread(self.recitations, _FITTED_SENTENCES)]
        return Calibration.of([*(turn.ids for turn in turns), *self.other_text()])

    @cached_property
    def lessons(self) -> Lessons:
        """What states are distilled on: the sentences, asked for in many ways, and other text."""
        opening = 0 if self.calibration is not None else len(self.reader.opening(self.tokenizer))
        other = [Turn(ids[:opening], ids[opening:]) for ids in self.other_text()]
        return Lessons.of([*self._missing, *self._recited(IN_MANY_WAYS), *other])

    def other_text(self) -> list[Tensor]:
        """What the model writes behind the prompt, or the texts that were given."""
        if self.calibration is not None:
            return self.text.sequences()
        return list(self._written[_FITTED])

    @cached_property
    def rotation(self) -> Rotation | None:
        """The model's rotary positions, where other engines can be given keys that were moved."""
        try:
            return Rotation.of(self.model)
        except AttangentError:
            return None

    @cached_property
    def held_out(self) -> Calibration:
        """What the model writes behind the prompt, on which nothing is fitted."""
        return Calibration.of(list(self._written[_HELD_OUT]))

    def fit(self, size: int = 64, method: str = DEFAULT) -> CompressedPrompt:
        """The closed form with `size` virtual tokens for each KV head; exact for a prompt no longer."""
        known = method_named(method)
        if known.keeps_whole(len(self.ids), check_size("size", size)):
            return self._compressed(self._whole(), len(self.ids), method, exact=True)
        states = self._fitted(size, method)
        if not known.sized:
            size = next(iter(states.values())).features.size
        return self._compressed(states, size, method)

    def unfitted(self, size: int, method: str = DEFAULT) -> CompressedPrompt | None:
        """The tokens that a method would keep, as they are; None where these do not tell what it keeps."""
        known = method_named(method)
        if not known.foreseen or known.keeps_whole(len(self.ids), size):
            return None
        states = unfitted_states(self.cache, known.kept(self.scores, size) or {}, self._softcap)
        return self._compressed(states, size, method)

    def fit_piece(self, size: int, method: str = DEFAULT) -> dict[str, PromptState]:
        """The states of this piece alone, fitted behind those before it."""
        if method_named(method).keeps_whole(len(self.ids), size):
            return self._whole()
        return self._fitted(size, method)

    def _fitted(self, size: int, method: str) -> dict[str, PromptState]:
        """The states of this prompt alone; those that were fitted last are at hand."""
        if self._last is None or self._last[0] != (size, method):
            self._last = (size, method), self._fitted_anew(size, method)
        return self._last[1]

    def _fitted_anew(self, size: int, method: str) -> dict[str, PromptState]:
        known = method_named(method)
        known.check_size(size)
        cache, text = self.cache, self.recall_text if known.by_scores else self.text
        kept = known.kept(self.scores, size) if known.by_scores else None

        def fitted() -> dict[str, PromptState]:
            with (
                self.stages.stage("fitting", len(cache.layers)) as done,
                fast_products(self.model, self._halved),
            ):
                return fit_states(self.model, cache, text, size, method, lambda layer: done(1), kept)

        if self.folder is None or not known.distillable:
            return fitted()
        return unpacked(self.work.tensors(f"states-{method}-{size}", lambda: packed(fitted())))

    def fit_to(self, tolerance: float, method: str = DEFAULT) -> CompressedPrompt:
        """The smallest size from 16, 32, 64, ... whose ratio on held-out text is at most `tolerance`."""
        if not 0 < tolerance < 1:
            raise AttangentError(f"tolerance is {tolerance!r}, expected a number between 0 and 1")
        size = _FIRST_SIZE
        while True:
            found = self.fit(size, method)
            if found.exact or not method_named(method).sized:
                return found
            if self.fidelity(found).ratio <= tolerance:
                return found
            size *= 2

    def distill(self, start: CompressedPrompt, plan: Distillation | None = None) -> CompressedPrompt:
        """The states trained to answer as the whole prompt does; in a folder it can be resumed.

        Without a plan there are as many steps as the text needs.
        """
        if start.exact:
            return start
        plan = plan or Distillation(enough_steps(self.lessons), seed=self.seed)
        check_method(start.method, plan.steps)
        plan = replace(plan, masses=method_named(start.method).weighted)
        cache, lessons = self.cache, self.lessons
        checkpoint = self.work.path(f"distillation-{start.method}-{start.size}.safetensors")
        with (
            self.stages.stage("distilling", plan.steps) as done,
            fast_products(self.model, self._halved),
        ):
            states = distill_states(
                self.model, cache, start.states, lessons, plan, checkpoint, lambda loss: done(1)
            )
        return replace(start, states=states, distilled=plan.steps)

    @cached_property
    def quiz(self) -> Quiz:
        """Questions on the prompt that it answers and that are not answered without it."""
        made = questions_from(self._prose(), bool(self.reader.roles), self.questions, self.seed)
        made += [Question(text, expected) for text, expected in self.asked if expected]
        name = f"quiz-{digest(made)}" if self.asked else "quiz"
        return Quiz.read(self.work.notes(name, lambda: asdict(self._asked(made))))

    def _asked(self, made: Sequence[Question]) -> Quiz:
        full, none = Way.full(self.cache), Way.none()
        with self.stages.stage("making questions", len(made)) as done:
            return Quiz.made(
                made, partial(self._say, full, done), partial(self._say, none, lambda more: None)
            )

    def _say(self, way: Way, done: Callable[[int], Any], questions: Sequence[Question]) -> list[Said]:
        read = partial(self.reader.question, self.tokenizer)
        with fast_products(self.model, self._halved):
            return quiz_answers(self.model, self.tokenizer, questions, read, way, done)

    def quiz_answers(self, compressed: CompressedPrompt, quiz: Quiz | None = None) -> tuple[Answer, ...]:
        """How a compressed prompt answers a quiz, by default the prompt's own."""
        quiz = self.quiz if quiz is None else quiz
        for states, asked, answers in self._answered:
            if states is compressed.states and asked is quiz:
                return answers
        with self.stages.stage("asking", len(quiz)) as done:
            said = self._say(Way.compressed(self.cache, compressed.states), done, quiz.questions)
        self._answered.append((compressed.states, quiz, quiz.answers(said)))
        return self._answered[-1][2]

    def fidelity(self, compressed: CompressedPrompt) -> Fidelity:
        """How far the model behind a compressed prompt is from itself behind the whole one."""
        cache, text = self.cache, self.held_out
        with self.stages.stage("measuring", len(text)) as done:
            return measure_fidelity(self.model, cache, compressed.states, text, done)

    def _prose(self) -> str:
        if self.piece is not None:
            return self.tokenizer.decode(self.ids.tolist())
        if isinstance(self.prompt, str):
            return self.prompt
        return "\n".join(message["content"] for message in self.prompt)

    def report(
        self,
        compressed: CompressedPrompt,
        questions: Sequence[tuple[str, str | None]] = (),
        quiz: Quiz | None = None,
    ) -> Report:
        """What was kept: answers to own questions and to the user's, and the effect on other text.

        quiz: the own questions, by default those made from this prompt.
        """
        return report_of(self, compressed, questions, quiz)

    @property
    def _softcap(self) -> float | None:
        return getattr(self.model.config, "attn_logit_softcapping", None)

    def _whole(self) -> dict[str, PromptState]:
        """Every token of the prompt as it is."""
        return {
            name: PrefixState(Anchors(keys, self._softcap), values, torch.ones_like(keys[..., 0]))
            for name, (keys, values) in self.cache.layers.items()
        }

    @cached_property
    def _written(self) -> dict[str, Tensor]:
        """Texts that the model writes behind the prompt: those to fit on, and others to measure with."""
        return self.work.tensors("texts", self._sampled)

    def _sampled(self) -> dict[str, Tensor]:
        opening, cache = self.reader.opening(self.tokenizer), self.cache
        counts = {_FITTED: self.samples, _HELD_OUT: _SAMPLES_HELD_OUT}
        length = min(LENGTH, len(opening) + max(_SHORTEST, len(self.ids) // 4))
        with (
            self.stages.stage("sampling", length - len(opening)) as done,
            fast_products(self.model, self._halved),
        ):
            options: dict[str, Any] = {"length": length, "progress": lambda: done(1)}
            return sample(self.model, cache, opening, counts, self.seed, **options)

    def _compressed(
        self, states: dict[str, PromptState], size: int, method: str, exact: bool = False
    ) -> CompressedPrompt:
        piece = self.piece or Piece(self.ids)
        about = (self.reader.roles, fingerprint(self.tokenizer), exact)
        found = CompressedPrompt(
            joined_states(piece.before, states), piece.start + len(self.ids), size, method, *about
        )
        return replace(found, rotation=self.rotation)
