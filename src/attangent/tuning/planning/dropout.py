"""What dropout does to the outputs at the start: draws of the same rows in training mode."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from attangent._random import generator
from attangent.tuning.encoding import token_counts
from attangent.tuning.training import Collate

_AT_ONCE = 32


def has_dropout(model: nn.Module) -> bool:
    """Whether outputs in training mode are drawn; attention's own dropout is a number in the config."""
    modules = any(isinstance(part, nn.modules.dropout._DropoutNd) and part.p > 0 for part in model.modules())
    config = getattr(model, "config", None)
    names = ("attention_probs_dropout_prob", "attention_dropout", "attn_pdrop")
    return modules or any((getattr(config, name, None) or 0) > 0 for name in names)


def dropout_draws(
    model: Any, rows: Any, collate: Collate, draws: int, seed: int, layer: nn.Module | None = None
) -> Tensor:
    """The logits of all rows in training mode (D, n, C), or what `layer`, the classifier, reads (D, n, d).

    A model without dropout is asked once.
    """
    draws = draws if has_dropout(model) else 1
    order = sorted(range(len(rows)), key=(token_counts(rows) or [0] * len(rows)).__getitem__)
    found: list[Tensor] = []
    model.train()
    with torch.random.fork_rng(devices=[]), torch.no_grad(), _passing(layer):
        torch.manual_seed(generator(seed, "dropout").initial_seed())
        for start in range(0, draws * len(order), _AT_ONCE):
            chosen = [order[i % len(order)] for i in range(start, min(start + _AT_ONCE, draws * len(order)))]
            batch = {k: v for k, v in collate([rows[i] for i in chosen]).items() if k != "labels"}
            found.append(model(**batch).logits.float())
    model.eval()
    drawn = torch.cat(found).unflatten(0, (draws, len(order)))
    return drawn[:, torch.argsort(torch.tensor(order))]


@contextlib.contextmanager
def _passing(layer: nn.Module | None) -> Iterator[None]:
    """The layer gives what it reads."""
    if layer is None:
        yield
        return
    layer.forward = lambda states: states
    try:
        yield
    finally:
        del layer.forward


@dataclass(frozen=True)
class Noise:
    """What dropout adds to features h_i of each row: mean_i + e_i rest_i, e_i = 1 or -1 anew in each epoch.

    mean_i = m - s (h_i - mean h): dropout draws rows together, so that they differ less than without. The
    rest keeps its direction and cannot be learnt, as its sign changes.

    mean (n, d), rest (D, n, d).
    """

    mean: Tensor
    rest: Tensor

    @classmethod
    def of(cls, drawn: Tensor, clean: Tensor) -> "Noise":
        """From features as they were drawn (D, n, d) and as they are without dropout (n, d)."""
        noise, centred = drawn - clean, clean - clean.mean(dim=0)
        shrunk = (noise * centred).sum() / (len(noise) * centred.square().sum()).clamp(min=1e-30)
        mean = noise.mean(dim=(0, 1)) + shrunk * centred
        return cls(mean, noise - mean)

    def of_epoch(self, epoch: int, seed: int) -> Tensor:
        """One draw (n, d)."""
        draw = generator(seed, f"noise of epoch {epoch}")
        signs = 2 * torch.randint(0, 2, (len(self.mean), 1), generator=draw) - 1
        return self.mean + signs * self.rest[epoch % len(self.rest)]
