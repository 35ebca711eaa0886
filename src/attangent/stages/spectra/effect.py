"""What an edit does to the function of a model: its outputs and its loss on texts, layer by layer."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd
import torch
from torch import Tensor, nn
from torch.nn import functional

from attangent._checks import has_words
from attangent._errors import AttangentError
from attangent.stages.spectra.edit import SpectrumEdit


@dataclass(frozen=True, eq=False)
class Effect:
    """Means over all tokens of the texts.

    `cosine`: of the outputs before and after the edit (logits, or the last hidden states); `kl`: of the
    predicted next words, in nats, and `loss_before`, `loss_after`: of the next word, where the model predicts
    one, else NaN. `layers` has the cosine of the hidden states after each layer: layer, cosine.
    """

    cosine: float
    kl: float
    loss_before: float
    loss_after: float
    layers: pd.DataFrame


def measure_effect(edit: SpectrumEdit, tokenizer: Any, texts: Iterable[str]) -> Effect:
    """Run the texts through the model as it is and as edited, one by one; the model comes back as it was."""
    model, inputs = edit.model, _inputs(tokenizer, texts)
    training = model.training
    model.eval()
    try:
        before = [_run(model, each) for each in inputs]
        with edit:
            after = [_run(model, each) for each in inputs]
    finally:
        model.train(training)
    return _effect(inputs, before, after)


def minus_loss(tokenizer: Any, texts: Iterable[str]) -> Callable[[nn.Module], float]:
    """Minus the mean loss of the next word on these texts: a metric for `search_spectrum`."""
    inputs = _inputs(tokenizer, texts)

    def metric(model: nn.Module) -> float:
        found = [_run(model, each) for each in inputs]
        if not found[0][2]:
            raise AttangentError(f"{type(model).__name__} predicts no words: give a metric of your own")
        logits = torch.cat([run[0][:-1] for run in found])
        words = torch.cat([each["input_ids"][0, 1:] for each in inputs])
        return -functional.cross_entropy(logits, words.to(logits.device)).item()

    return metric


def _inputs(tokenizer: Any, texts: Iterable[str]) -> list[Any]:
    given = list(texts)
    if not callable(tokenizer) or isinstance(tokenizer, nn.Module):
        raise AttangentError(f"tokenizer is {type(tokenizer).__name__}, expected the model's tokenizer")
    if not given or not all(map(has_words, given)):
        raise AttangentError("texts are empty or no texts, expected one or more texts with words in them")
    try:
        return [tokenizer(text, return_tensors="pt", truncation=True, max_length=512) for text in given]
    except TypeError as error:
        raise AttangentError(f"tokenizer does not take texts as transformers' do: {error}") from error


@torch.no_grad()
def _run(model: nn.Module, inputs: Mapping[str, Tensor]) -> tuple[Tensor, list[Tensor], bool]:
    """Outputs (words, ...), hidden states of each layer, and whether the outputs are logits of words."""
    device = next(model.parameters()).device
    said = model(**{name: value.to(device) for name, value in inputs.items()}, output_hidden_states=True)
    hidden = [state[0].float() for state in said.hidden_states]
    logits = said.get("logits")
    if logits is None or logits.ndim != 3:
        return hidden[-1], hidden, False
    return logits[0].float(), hidden, True


def _effect(inputs: list[Any], before: list[Any], after: list[Any]) -> Effect:
    tokens = torch.cat([each["input_ids"][0] for each in inputs])
    outputs = [torch.cat([run[0] for run in runs]) for runs in (before, after)]
    if not all(torch.isfinite(output).all() for output in outputs):
        raise AttangentError("the model's outputs are not finite: nothing can be said about the edit")
    states = [_by_layer(runs) for runs in (before, after)]
    layers = [functional.cosine_similarity(*pair, dim=-1).mean().item() for pair in zip(*states, strict=True)]
    kl, losses = float("nan"), (float("nan"), float("nan"))
    if before[0][2]:
        logs = [output.log_softmax(-1) for output in outputs]
        kl = (logs[0].exp() * (logs[0] - logs[1])).sum(-1).mean().item()
        follows = _follows([each["input_ids"].shape[1] for each in inputs])
        losses = [functional.nll_loss(log[follows], tokens[follows + 1]).item() for log in logs]
    return Effect(
        functional.cosine_similarity(*outputs, dim=-1).mean().item(),
        kl,
        losses[0],
        losses[1],
        pd.DataFrame({"layer": range(-1, len(layers) - 1), "cosine": layers}),
    )


def _by_layer(runs: list[Any]) -> list[Tensor]:
    """The hidden states of all texts, one tensor per layer."""
    return [torch.cat(parts) for parts in zip(*(run[1] for run in runs), strict=True)]


def _follows(lengths: list[int]) -> Tensor:
    """Places of the words that another word of the same text follows."""
    starts = torch.tensor([0, *lengths]).cumsum(0).tolist()
    return torch.cat([torch.arange(a, a + n - 1) for a, n in zip(starts, lengths, strict=False)])
