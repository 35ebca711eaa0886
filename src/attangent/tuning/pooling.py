"""What a classifier reads: one token, as in transformers, or the mean over tokens, as in sentence models."""

import json
from pathlib import Path
from typing import Any, Literal, get_args

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError

Pooling = Literal["declared", "first", "mean"]
"""`declared`: the mean where the model's files say so (sentence-transformers'), else the model's own way."""
_DECLARED_AT = "1_Pooling/config.json"
_MEAN = "pooling_mode_mean_tokens"


def check_pooling(pooling: str) -> None:
    if pooling not in get_args(Pooling):
        raise AttangentError(f"pooling is {pooling!r}, expected one of {', '.join(get_args(Pooling))}")


def resolved_pooling(pooling: Pooling, model: str | Path) -> Literal["first", "mean"]:
    """`declared` as what the files beside the model say."""
    if pooling != "declared":
        return pooling
    return "mean" if _declares_mean(model) else "first"


def _declares_mean(model: str | Path) -> bool:
    path: Path | None = Path(model) / _DECLARED_AT
    if not Path(model).is_dir():
        path = _from_hub(str(model))
    if path is None or not path.is_file():
        return False
    try:
        found = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise AttangentError(f"{path} is not JSON; mend it, or say which pooling is wanted") from None
    return isinstance(found, dict) and found.get(_MEAN) is True


def _from_hub(model: str) -> Path | None:
    """The file of a hub model, None where it has none or the hub cannot be reached."""
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(model, _DECLARED_AT))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError):
        return None


def use_mean_pooling(model: Any) -> Any:
    """Let the classifier of an encoder read the mean of the last hidden states over tokens, without padding.

    The mean takes the place of the pooled output and of the first token, one of which heads read. The model
    is changed in place by a hook; its weights and its files are the same.
    """
    base = getattr(model, "base_model", None)
    if not isinstance(base, nn.Module) or base is model or getattr(model, "score", None) is not None:
        raise AttangentError(
            f"{type(model).__name__} has no encoder whose tokens could be averaged; use pooling 'first'"
        )
    base.register_forward_hook(_put_mean, with_kwargs=True)
    model.attangent_pooling = "mean"  # what adapters that were tuned so ask for
    return model


def _put_mean(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any) -> Any:
    states: Tensor = output.last_hidden_state
    mask = named.get("attention_mask", args[1] if len(args) > 1 else None)
    pooled = mean_over_tokens(states, mask)
    output.last_hidden_state = torch.cat([pooled.unsqueeze(1), states[:, 1:]], dim=1)
    if getattr(output, "pooler_output", None) is not None:
        output.pooler_output = pooled
    return output


def mean_over_tokens(states: Tensor, mask: Tensor | None) -> Tensor:
    """sum_t m_t h_t / sum_t m_t over the tokens t of each row, (B, d)."""
    if mask is None:
        return states.mean(dim=1)
    weights = mask[:, -states.shape[1] :].to(states.dtype).unsqueeze(-1)  # peft's prefix has its own in front
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
