"""The steps of a compression: read the prompt, score its tokens, choose some, fit them, ask questions.

A run holds the inputs of the steps and remembers their results; a resume cache stores the slow ones on disk.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.progress import Advance, Progress, Stages, no_progress
from attangent.compression.attribution import (
    Chosen,
    LessonRow,
    Teacher,
    lesson_rows,
    scored_width,
    token_scores,
)
from attangent.compression.bfloat16 import Halved, fast_products, forget, return_freed
from attangent.compression.capture import prefill, run_packed, sample
from attangent.compression.distilling import Distillation, distill_states, enough_steps
from attangent.compression.fidelity import Fidelity, measure_fidelity
from attangent.compression.methods import method_named
from attangent.compression.methods.base import CompressionMethod, LayerFitter, check_room
from attangent.compression.prompt import (
    check_length,
    check_model,
    fingerprint,
    plain_messages,
    read_prompt,
    tokens_of,
)
from attangent.compression.prompt_cache import Piece, PromptCache, PromptForm, PromptState, joined_states
from attangent.compression.questions import (
    MOST_FACTS,
    Question,
    as_line,
    forms_of,
    questions_from,
    unasked_parts,
)
from attangent.compression.quiz import Answer, Quiz, Reply, answer_all, ask
from attangent.compression.request import CompressionRequest
from attangent.compression.result import CompressedPrompt, Rotation
from attangent.compression.resume_cache import ResumeCache, digest
from attangent.compression.rules.german import is_german
from attangent.compression.text import (
    LENGTH,
    REPEAT,
    Calibration,
    Turn,
    passages,
    pieces,
    recitations,
    repetitions,
    spread,
)

# Maximum number of recitations.
_RECITATIONS = 192
# Recitations suffice to score a prompt if their passages make up this fraction of it.
_COVERED = 0.8
# Number of texts that the model writes to measure with.
_HELD_OUT = 8
# Tokens that the model writes per sample.
_SAMPLED = 24
_REPETITIONS = 48


@dataclass
class CompressionRun:
    """The compression of one prompt in one model. Each step runs when its result is first needed.

    Attributes:
        model: A bare causal language model.
        tokenizer: Its tokenizer.
        request: The prompt and how to compress it.
        folder: Folder in which an interrupted run resumes; None stores nothing.
        progress: Called as the steps advance.
        piece: The tokens to compress, if not the whole prompt.
        most_questions: Maximum number of facts of the prompt to ask for.
    """

    model: Any
    tokenizer: Any
    request: CompressionRequest
    folder: Path | None = None
    progress: Progress | None = None
    piece: Piece | None = None
    most_questions: int = MOST_FACTS
    stages: Stages = field(init=False)
    _halved: Halved = field(init=False, default_factory=dict)
    _teachers: dict[int, Teacher] = field(init=False, default_factory=dict)
    _last: tuple[tuple[int, str], dict[str, PromptState]] | None = field(init=False, default=None)
    _answered: list[tuple[Any, Quiz, tuple[Answer, ...]]] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        check_model(self.model, self.tokenizer)
        ids, self.reader = read_prompt(self.tokenizer, self.request.prompt)
        self._place = self.piece or Piece(ids)
        self.ids = self._place.ids
        check_length(self.model, len(self.ids))
        self.stages = Stages(self.progress)
        self.model.eval()

    @contextmanager
    def _stage(self, name: str, total: int) -> Iterator[Advance]:
        """Time a step that may compute in bfloat16."""
        with self.stages.stage(name, total) as advance, fast_products(self.model, self._halved):
            yield advance

    @cached_property
    def resume(self) -> ResumeCache:
        """Open the cache of intermediate results; its key covers everything that decides them."""
        config = self.model.config.to_dict()
        # A sum of some weights tells models of the same architecture apart without hashing all of them.
        weights = self.model.get_input_embeddings().weight[:16].double().sum().item()
        texts = None if self.request.calibration is None else list(self.request.calibration)
        about = [type(self.model).__name__, config.get("_name_or_path"), round(weights, 6)]
        about += [fingerprint(self.tokenizer), self.ids.tolist(), texts, self.request.seed]
        return ResumeCache(self.folder, about)

    # Read: the prompt's keys and values, and the texts on which states are scored, fitted and measured.

    @cached_property
    def cache(self) -> PromptCache:
        """Read the prompt."""
        with self.stages.stage("reading", len(self.ids)) as advance:
            cache = prefill(self.model, self.ids, advance, start=self._place.start, before=self._place.before)
            # This runs the model too, and now its weights are in memory.
            _ = self._rotation
        return cache

    @cached_property
    def repetitions(self) -> list[Turn]:
        """Return turns that repeat the prompt piece by piece."""
        return repetitions(self.ids, self.reader.question(self.tokenizer, REPEAT), _REPETITIONS)

    @cached_property
    def recitations(self) -> list[Turn]:
        """Return turns that ask for the passages of the prompt by half of their words."""
        prose = self._prose()
        german = is_german(prose)

        def question(text: str) -> Tensor:
            line = text if self.reader.roles else as_line(text, german)
            return self.reader.question(self.tokenizer, line)

        def answer(text: str) -> Tensor:
            return tokens_of(self.tokenizer, text if self.reader.roles else f" {text}")

        return spread(recitations(passages(prose), answer, question), _RECITATIONS)

    def _prose(self) -> str:
        if self.piece is not None:
            return self.tokenizer.decode(self.ids.tolist(), skip_special_tokens=True)
        prompt = self.request.prompt
        messages = [{"content": prompt}] if isinstance(prompt, str) else plain_messages(prompt)
        return "\n".join(message["content"] for message in messages)

    @property
    def scored_turns(self) -> list[Turn]:
        """Return the turns by which tokens are scored; repetitions too if passages leave much out."""
        covered = sum(len(turn.answer) for turn in self.recitations)
        uncovered = [] if covered >= _COVERED * len(self.ids) else self.repetitions
        return [*uncovered, *self.recitations]

    @cached_property
    def held_out(self) -> Calibration:
        """Let the model write texts after the prompt; nothing is fitted on them."""
        stored = self.resume.load_tensors("held-out")
        if stored is not None:
            return Calibration.of(list(stored["held out"]))
        opening = self.reader.opening(self.tokenizer)
        length = min(LENGTH, len(opening) + _SAMPLED)
        cache = self.cache
        with self._stage("sampling", length - len(opening)) as advance:
            counts = {"held out": _HELD_OUT}
            seed = self.request.seed
            texts = sample(self.model, cache, opening, counts, seed, length=length, progress=advance)
        return Calibration.of(list(self.resume.save_tensors("held-out", texts)["held out"]))

    @cached_property
    def users_text(self) -> list[Tensor]:
        """Return the user's calibration texts in pieces."""
        if self.request.calibration is None:
            return []
        texts = [tokens_of(self.tokenizer, text) for text in self.request.calibration]
        return Calibration.of([piece for ids in texts for piece in pieces(ids)]).sequences()

    @cached_property
    def calibration(self) -> Calibration:
        """Return the text to fit on: the turns that score tokens, and the user's text."""
        return Calibration.of([*(turn.ids for turn in self.scored_turns), *self.users_text])

    @cached_property
    def scored_rows(self) -> list[LessonRow]:
        """Return the turns by which tokens are scored, several per row."""
        return lesson_rows(self.scored_turns, scored_width(self.cache))

    @cached_property
    def lessons(self) -> list[LessonRow]:
        """Return the rows to distill on: those that score tokens, and the user's text."""
        turns = [Turn(ids[:0], ids) for ids in self.users_text if len(ids) > 1]
        return self.scored_rows + (lesson_rows(turns) if turns else [])

    # Score, choose and fit.

    @cached_property
    def scores(self) -> dict[str, Tensor]:
        """Score each token of the prompt in each head by the passages that need it."""
        stored = self.resume.load_tensors("scores-by-passages")
        if stored is not None:
            return stored
        cache = self.cache
        rows = self.scored_rows
        with self._stage("scoring", len(rows)) as advance:
            scores = token_scores(self.model, cache, rows, advance, self._teachers).together()
        return self.resume.save_tensors("scores-by-passages", scores)

    def fit(self, size: int, method: str = "recall") -> CompressedPrompt:
        """Fit `size` virtual tokens per KV head in closed form; a prompt no longer than that stays exact."""
        exact = len(self.ids) <= size
        return self._compressed(self.states(size, method), len(self.ids) if exact else size, method, exact)

    def states(self, size: int, method: str = "recall") -> dict[str, PromptState]:
        """Fit the states of this piece alone; the result of the last call is remembered."""
        if len(self.ids) <= check_size("size", size):
            return self.cache.whole_states(self._softcap)
        if self._last is None or self._last[0] != (size, method):
            self._last = (size, method), self._fitted(size, method_named(method))
        return self._last[1]

    def _fitted(self, size: int, method: CompressionMethod) -> dict[str, PromptState]:
        check_room(size)
        name = f"fitted-{method.name}-{size}"
        stored = self.resume.load_states(name)
        if stored is not None:
            return stored
        cache = self.cache
        text = self.calibration
        chosen = method.choose(self.scores, size)
        with self._stage("fitting", len(cache.layers)) as advance:
            states = fit_states(self.model, cache, text, method, chosen, advance)
        return self.resume.save_states(name, states)

    def distill(self, start: CompressedPrompt, steps: int | None = None) -> CompressedPrompt:
        """Train states to answer as the whole prompt does; None takes as many steps as the text needs."""
        if start.exact:
            return start
        cache = self.cache
        lessons = self.lessons
        plan = Distillation(
            enough_steps(len(lessons)) if steps is None else steps,
            seed=self.request.seed,
            masses=method_named(start.method).weighted,
        )
        with self._stage("distilling", plan.steps) as advance:
            states = distill_states(
                self.model, cache, start.states, lessons, plan, self.resume, advance, self._teachers
            )
        return replace(start, states=states, distilled=plan.steps)

    # Ask: what does the compressed prompt keep?

    @cached_property
    def quiz(self) -> Quiz:
        """Make questions that the prompt answers and that are not answered without it."""
        questions = questions_from(
            self._prose(), bool(self.reader.roles), self.most_questions, self.request.seed
        )
        first = 1 + max((question.fact for question in questions), default=-1)
        users = [
            Question(text, expected, first + number, "--ask")
            for number, (text, expected) in enumerate(self.request.questions)
            if expected
        ]
        name = f"quiz-{digest(questions + users)}"
        stored = self.resume.load_json(name)
        if stored is not None:
            return Quiz.read(stored)
        quiz = self._quiz_of(questions + users)
        self.resume.save_json(name, asdict(quiz))
        return quiz

    def unasked_by(self, quiz: Quiz) -> list[str]:
        """Return the parts of the prompt on which a quiz has no question."""
        return unasked_parts(self._prose(), quiz.questions)

    def _quiz_of(self, questions: Sequence[Question]) -> Quiz:
        """Keep one question per fact: the first that the full prompt answers and no prompt does not."""
        full_prompt = PromptForm.full(self.cache)
        answered: list[tuple[Question, Reply]] = []
        with self.stages.stage("making questions", len(questions)) as advance:
            for form in forms_of(questions):
                known = {question.fact for question, _ in answered}
                open_questions = [question for question in form if question.fact not in known]
                replies = self._ask(open_questions, full_prompt, advance)
                answered += [pair for pair in zip(open_questions, replies, strict=True) if pair[1].right]
            answered.sort(key=lambda pair: pair[0].fact)
            # Only right answers need the second question, which shows whether the prompt was needed.
            none = self._ask([question for question, _ in answered], PromptForm.none())
        quiz = Quiz.of([question for question, _ in answered], [reply for _, reply in answered], none)
        return replace(quiz, candidates=len({question.fact for question in questions}))

    def _ask(
        self, questions: Sequence[Question], form: PromptForm, progress: Advance = no_progress
    ) -> list[Reply]:
        read = partial(self.reader.question, self.tokenizer)
        with fast_products(self.model, self._halved):
            return ask(self.model, self.tokenizer, questions, read, form, progress)

    def answers(self, compressed: CompressedPrompt, quiz: Quiz | None = None) -> tuple[Answer, ...]:
        """Answer a quiz, by default the prompt's, with a compressed prompt; results are remembered."""
        quiz = self.quiz if quiz is None else quiz
        # The search, the report and the export ask the same states: identity of the states suffices.
        for states, asked, answers in self._answered:
            if states is compressed.states and asked is quiz:
                return answers
        with self.stages.stage("asking", len(quiz)) as advance:
            form = PromptForm.compressed(self.cache, compressed.states)
            replies = self._ask(quiz.questions, form, advance)
        self._answered.append((compressed.states, quiz, quiz.answers(replies)))
        return self._answered[-1][2]

    def users_answers(
        self, compressed: CompressedPrompt, questions: Sequence[tuple[str, str | None]]
    ) -> tuple[Answer, ...]:
        """Answer a user's questions with the full prompt, the compressed one and none."""
        if not questions:
            return ()
        read = partial(self.reader.question, self.tokenizer)
        with self.stages.stage("asking", len(questions)) as advance:
            return answer_all(
                self.model, self.tokenizer, questions, read, self.cache, compressed.states, advance
            )

    def fidelity(self, compressed: CompressedPrompt) -> Fidelity:
        """Compare the model's predictions with the compressed prompt, the whole one and none."""
        cache = self.cache
        text = self.held_out
        # The model computes in its own dtype here: its weights need the memory of the bfloat16 ones.
        forget(self._halved)
        with self.stages.stage("measuring", len(text)) as advance:
            fidelity = measure_fidelity(self.model, cache, compressed.states, text, advance)
        return_freed()
        return fidelity

    @property
    def _softcap(self) -> float | None:
        return getattr(self.model.config, "attn_logit_softcapping", None)

    @cached_property
    def _rotation(self) -> Rotation | None:
        try:
            return Rotation.of(self.model)
        except AttangentError:
            return None

    def _compressed(
        self, states: dict[str, PromptState], size: int, method: str, exact: bool = False
    ) -> CompressedPrompt:
        return CompressedPrompt(
            joined_states(self._place.before, states),
            self._place.start + len(self.ids),
            size,
            method,
            self.reader.roles,
            fingerprint(self.tokenizer),
            exact,
            rotation=self._rotation,
        )


def fit_states(
    model: Any,
    cache: PromptCache,
    calibration: Calibration,
    method: CompressionMethod,
    chosen: Chosen,
    progress: Advance = no_progress,
) -> dict[str, PromptState]:
    """Fit a state per layer in one pass of the calibration text through the model; return them by layer."""
    text = calibration.packed()
    fitter = LayerFitter(method, cache, text.valid, chosen, progress)
    with torch.no_grad():
        run_packed(model, text, cache.length, fitter, logits_to_keep=1)
    return fitter.states
