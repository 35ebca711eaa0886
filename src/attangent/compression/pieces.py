"""Long prompts piece by piece: each is read after the compressed pieces before it, and their states add up.

Positions continue from piece to piece while all of them fit into the model's context. In a longer prompt
every piece stands at position 0 and the keys of earlier ones are rotated back, so that distances are kept up
to the context's end. Layers with a sliding window keep the last piece only: they could not see the others.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.progress import Progress
from attangent.attention import PrefixState, RaggedState
from attangent.compression.pipeline import CompressionRun
from attangent.compression.prompt import fingerprint, longest_piece, read_prompt, sliding_layers
from attangent.compression.prompt_cache import Piece, PromptState, joined_states
from attangent.compression.quiz import Quiz
from attangent.compression.request import CompressionRequest
from attangent.compression.result import CompressedPrompt, Rotation
from attangent.compression.resume_cache import ResumeCache, packed, unpacked
from attangent.compression.size_search import search_size
from attangent.compression.text import LENGTH

PIECE = 1024
"""Tokens per piece."""
_FEWEST_QUESTIONS = 6


@dataclass(frozen=True)
class LongPrompt:
    """A prompt too long to be read at once.

    Attributes:
        pieces: Its tokens in pieces.
        roles: Roles of its messages, empty for plain text.
        rotated: Whether it exceeds the context, so that keys of earlier pieces must be rotated.
        context: The model's context, if it has a bound.
    """

    pieces: Sequence[Tensor]
    roles: tuple[str, ...]
    rotated: bool
    context: int | None

    @classmethod
    def of(cls, model: Any, tokenizer: Any, prompt: Any, piece: int | None = None) -> "LongPrompt":
        """Cut a prompt into pieces of `piece` tokens, by default 1024 or what fits into the context.

        Raises:
            AttangentError: If a piece does not fit into the context.
        """
        ids, reader = read_prompt(tokenizer, prompt)
        context = getattr(model.config, "max_position_embeddings", None)
        most = longest_piece(model)
        if most is not None and most < LENGTH // 2:
            raise AttangentError(
                f"the model reads {most + LENGTH} tokens at once and at least {LENGTH + LENGTH // 2} are "
                "needed for a piece of the prompt and text after it; use a model with a longer context"
            )
        size = check_size("piece", piece or min(PIECE, most or PIECE), least=LENGTH // 2)
        if most is not None and size > most:
            raise AttangentError(f"piece must be at most {most} tokens for this model (got {size})")
        rotated = context is not None and len(ids) + LENGTH > context
        return cls(ids.split(size), reader.roles, rotated, context)

    @property
    def tokens(self) -> int:
        """Return the number of tokens."""
        return sum(map(len, self.pieces))


@dataclass(frozen=True)
class PieceResult:
    """A long prompt, compressed.

    Attributes:
        prompt: The compressed prompt.
        last: The run of the last piece.
        sizes: Average tokens per head of each piece.
        quiz: Questions that each piece answers, uncompressed, after the compressed ones before it.
        unasked: Parts of the prompt on which no question counts.
        resume: Cache of the finished pieces.
    """

    prompt: CompressedPrompt
    last: CompressionRun
    sizes: tuple[int, ...]
    quiz: Quiz
    unasked: tuple[str, ...]
    resume: ResumeCache


@dataclass(frozen=True)
class _CompressedPiece:
    """States of one piece, its length, and the distance of its first token from the text that follows."""

    states: dict[str, PromptState]
    length: int
    distance: int


def check_pieces(request: CompressionRequest) -> None:
    """Raise AttangentError if a request asks for training or an export, which pieces do not have."""
    if request.distill:
        raise AttangentError(
            f"distill must be 0 for a prompt that exceeds the model's context (got {request.distill}), whose "
            "pieces are not trained; leave --distill out"
        )
    if request.export:
        raise AttangentError(
            "a prompt that exceeds the model's context cannot be exported; leave --export out, or shorten "
            "the prompt"
        )


def compress_pieces(
    model: Any,
    tokenizer: Any,
    long: LongPrompt,
    request: CompressionRequest,
    folder: Path | None = None,
    progress: Progress | None = None,
    most_questions: int = 0,
) -> PieceResult:
    """Compress a prompt of any length in bounded memory.

    Args:
        model: A bare causal language model.
        tokenizer: Its tokenizer.
        long: The prompt in pieces.
        request: Goal or size of every piece.
        folder: Folder in which an interrupted run resumes; None stores nothing.
        progress: Called after every piece.
        most_questions: Maximum number of questions made from all pieces together; 0 makes none.

    Returns:
        The compressed prompt and its quiz.

    Raises:
        AttangentError: If the request asks for training or an export.
    """
    check_pieces(request)
    request = replace(request, distill=0, questions=())
    key = [fingerprint(tokenizer), [ids.tolist() for ids in long.pieces], asdict(request)]
    resume = ResumeCache(folder, key)
    sliding = sliding_layers(model)
    rotation = Rotation.of(model) if long.rotated else None
    done: list[_CompressedPiece] = []
    quizzes: list[Quiz] = []
    unasked: list[str] = []
    sizes: list[int] = []
    last: CompressionRun | None = None
    start = 0
    for index, ids in enumerate(long.pieces):
        done = [_followed(piece, done[-1].length, rotation, long, sliding) for piece in done]
        last = CompressionRun(model, tokenizer, request, piece=Piece(ids, start, _joined(done)))
        if most_questions:
            last.most_questions = max(_FEWEST_QUESTIONS, most_questions // len(long.pieces))
        states = _piece_states(last, resume, f"piece-{index}")
        done.append(_CompressedPiece(states, len(ids), len(ids)))
        sizes.append(_size_of(states))
        if most_questions:
            quizzes.append(_piece_quiz(last, resume, f"quiz-{index}"))
            unasked += last.unasked_by(quizzes[-1])
        # Rotated pieces all start at position 0; earlier keys move back instead.
        start = 0 if long.rotated else start + len(ids)
        if progress is not None:
            progress("pieces", index + 1, len(long.pieces))
    offset = done[-1].length if long.rotated else long.tokens
    states = _joined(done)
    prompt = CompressedPrompt(
        states, offset, _size_of(states), request.method, long.roles, fingerprint(tokenizer)
    )
    assert last is not None
    return PieceResult(prompt, last, tuple(sizes), Quiz.joined(quizzes), tuple(unasked), resume)


def _piece_states(run: CompressionRun, resume: ResumeCache, name: str) -> dict[str, PromptState]:
    stored = resume.load_states(name)
    if stored is not None:
        return stored
    request = run.request
    size = search_size(run, request).prompt.size if request.searches else request.fixed_size
    # Packed and unpacked: a resumed run must get the same kind of state as an uninterrupted one.
    return resume.save_states(name, unpacked(packed(run.states(size, request.method))))


def _piece_quiz(run: CompressionRun, resume: ResumeCache, name: str) -> Quiz:
    stored = resume.load_json(name)
    if stored is None:
        stored = resume.save_json(name, asdict(run.quiz))
    return Quiz.read(stored)


def _followed(
    piece: _CompressedPiece, length: int, rotation: Rotation | None, long: LongPrompt, sliding: set[str]
) -> _CompressedPiece:
    """Return a piece in the state it has once another one of `length` tokens follows."""
    states = {name: state for name, state in piece.states.items() if name not in sliding}
    if rotation is None or long.context is None:
        return replace(piece, states=states)
    # Beyond the context the model has never seen a distance: earlier pieces stop moving there.
    room = max(0, long.context - LENGTH - len(long.pieces[0]) - piece.distance)
    by = min(length, room)
    moved = {name: _moved(state, rotation, -by) for name, state in states.items()}
    return _CompressedPiece(moved, piece.length, piece.distance + by)


def _size_of(states: Mapping[str, PromptState]) -> int:
    """Return the average number of virtual tokens per KV head."""
    sizes = [size for state in states.values() for size in _ragged(state).sizes]
    return round(sum(sizes) / len(sizes)) if sizes else 0


def _joined(done: Sequence[_CompressedPiece]) -> dict[str, PromptState]:
    states: dict[str, PromptState] = {}
    for piece in done:
        states = joined_states(states, piece.states)
    return states


def _moved(state: PromptState, rotation: Rotation, by: int) -> PromptState:
    ragged = _ragged(state)
    keys = rotation.moved(ragged.keys.detach(), by)
    return RaggedState(keys, ragged.Z.detach(), ragged.mass.detach(), ragged.sizes, ragged.softcap)


def _ragged(state: PromptState) -> RaggedState:
    return RaggedState.from_state(state) if isinstance(state, PrefixState) else state
