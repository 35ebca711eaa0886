"""How far a model behind a compressed prompt is from itself behind the whole one."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent.attention import Prefix
from attangent.compression.capture import Handler, PromptCache, run, whole_prompt, with_states
from attangent.compression.text import Calibration

_AT_ONCE = 4


@dataclass(frozen=True)
class Fidelity:
    """Means over the tokens of text that the model wrote behind the whole prompt.

    divergence: KL(full || other) by name of the other, `compressed` or `none`, in nats a token;
    loss: minus the log-likelihood of the text, by name, `full` too;
    agreement: how often the likeliest next token is the same as with the full prompt.
    """

    divergence: dict[str, float]
    loss: dict[str, float]
    agreement: dict[str, float]

    @property
    def ratio(self) -> float:
        """KL(full || compressed) / KL(full || no prompt): 0 keeps everything, 1 nothing."""
        return self.divergence["compressed"] / max(self.divergence["none"], 1e-12)


def measure_fidelity(
    model: Any,
    cache: PromptCache,
    states: Mapping[str, Prefix],
    text: Calibration,
    progress: Callable[[int], Any] = lambda sequences: None,
) -> Fidelity:
    """Compare the model behind the states and behind nothing with the model behind the whole prompt."""
    return compare_fidelity(model, cache, [states], text, progress)[0]


def compare_fidelity(
    model: Any,
    cache: PromptCache,
    several: Sequence[Mapping[str, Prefix]],
    text: Calibration,
    progress: Callable[[int], Any] = lambda sequences: None,
) -> list[Fidelity]:
    """`measure_fidelity` of several states of one prompt, for which the full prompt is asked only once."""
    sums = [_Sums() for _ in several]
    with torch.no_grad():
        for start in range(0, len(text), _AT_ONCE):
            ids, valid = (part[start : start + _AT_ONCE] for part in (text.ids, text.valid))
            full = _log_chances(model, ids, valid, cache.length, whole_prompt(cache))
            none = _log_chances(model, ids, valid, 0, None)
            for each, states in zip(sums, several, strict=True):
                said = _log_chances(model, ids, valid, cache.length, with_states(states))
                each.add({"full": full, "compressed": said, "none": none}, ids, valid)
            progress(len(ids))
    return [each.means() for each in sums]


def _log_chances(model: Any, ids: Tensor, valid: Tensor, offset: int, handler: Handler | None) -> Tensor:
    """(T, vocabulary) over the valid tokens."""
    logits = run(model, ids, offset, handler).logits
    return logits[valid].float().log_softmax(dim=-1).cpu()


class _Sums:
    """Running sums over tokens, for each way to have the prompt."""

    def __init__(self) -> None:
        self.count = self.predicted = 0
        self.totals: dict[tuple[str, str], float] = {}

    def add(self, said: Mapping[str, Tensor], ids: Tensor, valid: Tensor) -> None:
        full = said["full"]
        following = ids.roll(-1, dims=1)[valid]
        real = (valid & valid.roll(-1, dims=1) & (torch.arange(ids.shape[1]) < ids.shape[1] - 1))[valid]
        self.count += len(full)
        self.predicted += int(real.sum())
        for name, other in said.items():
            loss = -other.gather(1, following[:, None])[real].sum()
            self._plus("loss", name, loss)
            if name != "full":
                self._plus("divergence", name, (full.exp() * (full - other)).sum())
                self._plus("agreement", name, (full.argmax(dim=1) == other.argmax(dim=1)).sum())

    def _plus(self, what: str, name: str, value: Tensor) -> None:
        self.totals[what, name] = self.totals.get((what, name), 0.0) + value.item()

    def means(self) -> Fidelity:
        def of(what: str, count: int) -> dict[str, float]:
            return {name: total / max(count, 1) for (w, name), total in self.totals.items() if w == what}

        return Fidelity(of("divergence", self.count), of("loss", self.predicted), of("agreement", self.count))
