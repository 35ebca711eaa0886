"""What a way to compress has to say about itself."""

from abc import ABC, abstractmethod
from typing import ClassVar

from attangent._core.errors import AttangentError
from attangent.adapters.config import NTKConfig
from attangent.compression.methods.scoring import Kept, Scores
from attangent.compression.problem import HeadProblem, LayerProblem, PromptState, Solution
from attangent.compression.text import SINKS


class CompressionMethod(ABC):
    """One way to turn a prompt into states: its name, how a layer is fitted, and which adapter it becomes."""

    name: ClassVar[str]
    distillable: ClassVar[bool] = True
    """Whether its states are virtual tokens that can be trained."""
    weighted: ClassVar[bool] = True
    """Whether its tokens have masses of their own."""
    sized: ClassVar[bool] = True
    """Whether the user chooses the size; otherwise the model's heads do."""
    by_scores: ClassVar[bool] = False
    """Whether tokens are chosen beforehand, by the scores of a repetition of the prompt."""
    foreseen: ClassVar[bool] = False
    """Whether these tokens, before they are fitted, tell how many answers will be kept."""

    def kept(self, scores: Scores, size: int) -> Kept | None:
        """The tokens that each head keeps, where they are chosen beforehand."""
        return None

    @abstractmethod
    def layer_state(self, layer: LayerProblem, size: int) -> PromptState:
        """The state of one layer with `size` virtual tokens for each KV head."""

    def config(self, size: int, position_offset: int) -> NTKConfig:
        """The adapter that states of this method are attached as."""
        return NTKConfig(
            features="anchors", size=size, units="raw", per="kv", position_offset=position_offset
        )

    def keeps_whole(self, prompt_tokens: int, size: int) -> bool:
        """Whether a prompt this short is kept as it is."""
        return self.sized and prompt_tokens <= size

    def check_size(self, size: int) -> None:
        """Refuse a size that leaves no room beside the first tokens."""
        if self.sized and size <= SINKS:
            raise AttangentError(f"size is {size}, expected more than the {SINKS} first tokens, always kept")

    def check_distillable(self) -> None:
        if not self.distillable:
            raise AttangentError(
                f"method {self.name!r} has no virtual tokens to distill: choose another method"
            )


class HeadwiseMethod(CompressionMethod):
    """A method that solves each KV head by itself."""

    @abstractmethod
    def solve(self, problem: HeadProblem, size: int) -> Solution:
        """The `size` virtual tokens of one KV head."""

    def layer_state(self, layer: LayerProblem, size: int) -> PromptState:
        return layer.state([self.solve(problem, size) for problem in layer.heads()])
