"""A request to compress a prompt: the goal, the bounds and the method."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from attangent._core.checks import check_between, check_choice, check_positive, check_size
from attangent.compression.methods import method_named
from attangent.compression.methods.base import check_room

DEFAULT_SIZE = 64
Export = Literal["peft"]


@dataclass(frozen=True)
class CompressionRequest:
    """A prompt and how to compress it, checked on creation.

    Attributes:
        prompt: Text, or the first messages of a chat.
        keep: Fraction of the answers to keep; 0 takes `size` without a search.
        size: Maximum average number of virtual tokens per KV head. With `keep` 0, exactly this number; 64 by
            default.
        seconds: Stop searching for a better size after this time.
        method: `recall`, or `plain` for other engines.
        distill: Steps of training. In a search, None takes as many as the text needs at sizes whose closed
            form comes close; with `keep` 0, None takes none.
        calibration: Texts to fit on; by default the model writes its own.
        questions: The user's questions with expected words or None.
        seed: Seed of all random draws.
        export: Also write the prompt for another engine.

    Raises:
        AttangentError: If a value is out of range.

    Example:
        >>> CompressionRequest("A long prompt ...", keep=0.9, size=128).searches
        True
    """

    prompt: Any
    keep: float | int = 0.95
    size: int | None = None
    seconds: float | int | None = None
    method: str = "recall"
    distill: int | None = None
    calibration: Sequence[str] | None = None
    questions: Sequence[tuple[str, str | None]] = ()
    seed: int = 0
    export: Export | None = None

    def __post_init__(self) -> None:
        method_named(self.method)
        check_between("keep", self.keep, 0, 1)
        check_room(check_size("size", self.fixed_size))
        check_size("distill", self.distill or 0, least=0)
        if self.seconds is not None:
            check_positive("seconds", self.seconds)
        if self.export is not None:
            check_choice("export", self.export, ("peft",))

    @property
    def searches(self) -> bool:
        """Return whether the size is searched for."""
        return self.keep > 0

    @property
    def fixed_size(self) -> int:
        """Return the size to take without a search."""
        return DEFAULT_SIZE if self.size is None else self.size
