"""What dropout does to the outputs at the start: draws of the same rows in training mode."""

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
    model: Any, rows: Any, collate: Collate, basis: Tensor, clean: Tensor, draws: int, seed: int
) -> Tensor:
    """What dropout adds to the outputs Q'z (D, n, O) of all rows; (0, n, O) for a model without it."""
    if not has_dropout(model):
        return torch.zeros(0, *clean.shape)
    order = sorted(range(len(rows)), key=(token_counts(rows) or [0] * len(rows)).__getitem__)
    found = torch.empty(draws, *clean.shape)
    model.train()
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(generator(seed, "dropout").initial_seed())
        for draw in found:
            for start in range(0, len(order), _AT_ONCE):
                chosen = order[start : start + _AT_ONCE]
                batch = {k: v for k, v in collate([rows[i] for i in chosen]).items() if k != "labels"}
                draw[chosen] = model(**batch).logits.float() @ basis
    model.eval()
    return found - clean
