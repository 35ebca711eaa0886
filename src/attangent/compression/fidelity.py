"""Fidelity of a compressed prompt: its next-token predictions compared with those of the full prompt."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from attangent._core.progress import Advance, no_progress
from attangent.attention import Prefix
from attangent.compression.capture import run
from attangent.compression.prompt_cache import PromptCache, PromptForm
from attangent.compression.text import Calibration

_AT_ONCE = 2


@dataclass(frozen=True)
class Fidelity:
    """Averages over the tokens of text that the model wrote after the whole prompt.

    Attributes:
        divergence: KL(full || other) in nats per token; the other is `compressed` or `none`.
        loss: Negative log-likelihood per token with the `full` prompt, `compressed` and `none`.
        agreement: How often the most likely next token is the same as with the full prompt.
    """

    divergence: dict[str, float]
    loss: dict[str, float]
    agreement: dict[str, float]

    @property
    def ratio(self) -> float:
        """Return KL(full || compressed) / KL(full || none): 0 keeps everything, 1 nothing."""
        return self.divergence["compressed"] / max(self.divergence["none"], 1e-12)


def measure_fidelity(
    model: Any,
    cache: PromptCache,
    states: Mapping[str, Prefix],
    text: Calibration,
    progress: Advance = no_progress,
) -> Fidelity:
    """Compare the model's predictions with states, and without a prompt, to those with the whole prompt."""
    forms = {
        "full": PromptForm.full(cache),
        "none": PromptForm.none(),
        "compressed": PromptForm.compressed(cache, states),
    }
    sums = _Sums()
    with torch.no_grad():
        for start in range(0, len(text), _AT_ONCE):
            ids, valid = (part[start : start + _AT_ONCE] for part in (text.ids, text.valid))
            sums.add(
                {name: _log_chances(model, ids, valid, form) for name, form in forms.items()}, ids, valid
            )
            progress(len(ids))
    return sums.means()


def _log_chances(model: Any, ids: Tensor, valid: Tensor, form: PromptForm) -> Tensor:
    """Return log probabilities (T, vocabulary) at the valid tokens."""
    logits = run(model, ids, form.offset, form.handler).logits
    return logits[valid].float().log_softmax(dim=-1).cpu()


class _Sums:
    """Running sums over tokens, by measure and form of the prompt."""

    def __init__(self) -> None:
        self.count = 0
        self.predicted = 0
        self.totals: dict[str, dict[str, float]] = {"divergence": {}, "loss": {}, "agreement": {}}

    def add(self, log_chances: Mapping[str, Tensor], ids: Tensor, valid: Tensor) -> None:
        full = log_chances["full"]
        # The last token of each sequence has no successor, so it predicts nothing.
        following = ids.roll(-1, dims=1)[valid]
        real = (valid & valid.roll(-1, dims=1) & (torch.arange(ids.shape[1]) < ids.shape[1] - 1))[valid]
        self.count += len(full)
        self.predicted += int(real.sum())
        for name in ("full", "compressed", "none"):
            other = log_chances[name]
            self._add("loss", name, -other.gather(1, following[:, None])[real].sum())
            if name != "full":
                self._add("divergence", name, (full.exp() * (full - other)).sum())
                self._add("agreement", name, (full.argmax(dim=1) == other.argmax(dim=1)).sum())

    def _add(self, measure: str, name: str, value: Tensor) -> None:
        self.totals[measure][name] = self.totals[measure].get(name, 0.0) + value.item()

    def means(self) -> Fidelity:
        counts = {"divergence": self.count, "loss": self.predicted, "agreement": self.count}
        return Fidelity(
            **{
                measure: {name: total / max(counts[measure], 1) for name, total in totals.items()}
                for measure, totals in self.totals.items()
            }
        )
