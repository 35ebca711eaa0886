"""The interface of a compression method, and the handler that fits a layer with it."""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import ClassVar

from torch import Tensor

from attangent._core.deprecation import moved_names
from attangent._core.errors import AttangentError
from attangent._core.progress import Advance, no_progress
from attangent.adapters.call import AttentionCall
from attangent.attention import merge_prefix
from attangent.compression.attribution import Chosen, Scores
from attangent.compression.problem import HeadProblem, LayerProblem, Solution
from attangent.compression.prompt_cache import PromptCache, PromptState
from attangent.compression.text import SINKS

__getattr__ = moved_names(
    __name__,
    "0.2",
    {},
    removed={"HeadwiseMethod": "subclass CompressionMethod and override choose and fit_head"},
)


class CompressionMethod(ABC):
    """A way to replace the tokens of a prompt by fewer virtual tokens.

    Subclasses choose tokens of the prompt by their scores and turn those of each head into virtual tokens.

    Attributes:
        name: Name under which the method is registered.
        weighted: Whether the virtual tokens have masses other than 1.
    """

    name: ClassVar[str]
    weighted: ClassVar[bool] = True

    @abstractmethod
    def choose(self, scores: Scores, size: int) -> Chosen:
        """Choose the tokens that each head keeps.

        Args:
            scores: Scores of all tokens, by layer and KV head.
            size: Average number of tokens per head.

        Returns:
            The indices of the tokens to keep.
        """

    @abstractmethod
    def fit_head(self, problem: HeadProblem, chosen: Tensor) -> Solution:
        """Fit the virtual tokens of one KV head.

        Args:
            problem: The attention to reproduce.
            chosen: Indices of the tokens that the head keeps.

        Returns:
            Keys (r, d), masses (r) and values (r, dv).
        """


@dataclass
class LayerFitter:
    """A handler that fits each layer's state when its attention is called, and answers with that state.

    Later layers are thus fitted on the queries that they will see once the earlier ones are compressed.

    Attributes:
        method: The compression method.
        cache: The prompt.
        valid: Which tokens (B, L) of the calibration text count.
        chosen: The tokens that each head keeps.
        progress: Called after every layer.
        states: The fitted states, by layer.
    """

    method: CompressionMethod
    cache: PromptCache
    valid: Tensor
    chosen: Chosen
    progress: Advance = no_progress
    states: dict[str, PromptState] = field(default_factory=dict)

    def __call__(self, call: AttentionCall) -> Tensor:
        output, lse = self.cache.without_prompt(call)
        layer = LayerProblem(call, self.valid, *self.cache.layers[call.layer], output, lse)
        heads = zip(layer.heads(), self.chosen[call.layer], strict=True)
        state = layer.state([self.method.fit_head(head, chosen) for head, chosen in heads])
        self.states[call.layer] = state
        self.progress(1)
        return merge_prefix(call.q, output, lse, state, call.scale).to(call.q.dtype)


def check_room(size: int) -> None:
    """Raise AttangentError if a size leaves no room after the first tokens."""
    if size <= SINKS:
        raise AttangentError(
            f"size must be at least {SINKS + 1} (got {size}): the first {SINKS} tokens are always kept"
        )
