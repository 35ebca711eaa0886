"""Load base models and tokenizers: classifier, pooling, 8-bit weights and a frozen peft adapter."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Literal

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from attangent._core.errors import AttangentError, loading
from attangent._core.files import read_json
from attangent.adapters.hub import check_model_name, load_pretrained
from attangent.tuning.methods.peft_methods import with_peft_adapter
from attangent.tuning.tasks import NEEDS, TaskKind, classifier_names, is_head

Quantised = Literal["int8"]
# `declared`: the normalised mean if the model's sentence-transformers config says so, else the first token.
Pooling = Literal["declared", "first", "mean", "normalised"]
UsedPooling = Literal["first", "mean", "normalised"]
# Variance that is added before the square root; small, as in BERT's own normalisation.
_EPSILON = 1e-12
_SAVED = ("config.json", "tokenizer_config.json")
_POOLING_FILE = "1_Pooling/config.json"


def load_model(
    model: str | Path,
    kind: TaskKind,
    labels: Sequence[str] = (),
    seed: int = 0,
    revision: str | None = None,
) -> Any:
    """Load a model with a classifier for these labels or for one number, initialised by the seed."""
    import transformers

    needs = NEEDS[kind]
    options: dict[str, Any] = {} if revision is None else {"revision": revision}
    if needs.values:
        options |= {"num_labels": 1, "problem_type": "regression"}
    elif needs.classifier:
        options["id2label"] = dict(enumerate(labels))
        options["label2id"] = {name: number for number, name in enumerate(labels)}
    if needs.classifier:
        options["ignore_mismatched_sizes"] = True
    with torch.random.fork_rng(devices=[]), silent_transformers():
        torch.manual_seed(seed)
        options["output_loading_info"] = True
        loaded, report = _from_pretrained(getattr(transformers, needs.auto_class), model, "model", options)
    _check_complete(model, report["missing_keys"], generates=kind == "causal-lm")
    if loaded.dtype == torch.bfloat16 and needs.classifier:
        _keep_classifier_in_float32(loaded, classifier_names(loaded, kind))
    return loaded.float() if loaded.dtype == torch.float16 else loaded


def load_base(
    model: str | Path,
    kind: TaskKind,
    labels: Sequence[str] = (),
    *,
    seed: int = 0,
    revision: str | None = None,
    quantised: str | None = None,
    adapter: str | Path | None = None,
    pooling: str = "first",
) -> Any:
    """Load a model as `load_model` does, with 8-bit weights, a frozen adapter and mean pooling if set."""
    loaded = quantise(load_model(model, kind, labels, seed, revision), quantised)
    if adapter is not None:
        loaded = with_frozen_adapter(loaded, Path(adapter))
    return loaded if pooling == "first" else use_mean_pooling(loaded, normalised=pooling == "normalised")


def load_tokenizer(model: str | Path) -> Any:
    """Load the model's tokenizer; without a padding token it pads with its end token."""
    import transformers

    tokenizer = _from_pretrained(transformers.AutoTokenizer, model, "tokenizer", {})
    if tokenizer.pad_token_id is None:
        tokenizer.pad_token = tokenizer.eos_token
    if tokenizer.pad_token_id is None:
        raise AttangentError(f"the tokenizer of {model} has neither a padding nor an end token; add one.")
    return tokenizer


def pad_with(model: Any, tokenizer: Any) -> None:
    """Set the model's padding token, which it needs to find the last token of a row."""
    if getattr(model.config, "pad_token_id", None) is None:
        model.config.pad_token_id = tokenizer.pad_token_id


def preprocessor_of(model: str | Path) -> dict[str, Any]:
    """Read the settings in a folder's preprocessor_config.json, if it exists."""
    path = Path(model) / "preprocessor_config.json"
    return read_json(path) if path.is_file() else {}


def model_limit(model: Any) -> int | None:
    """Return the maximum number of tokens, if the model has a table of positions."""
    return getattr(model.config, "max_position_embeddings", None)


def _from_pretrained(auto_class: Any, model: str | Path, what: str, options: dict[str, Any]) -> Any:
    folder = Path(model)
    if folder.is_dir() and not any((folder / name).is_file() for name in _SAVED):
        raise AttangentError(f"{folder} has no config.json; use the folder of a saved model or a Hub id.")
    check_model_name(model)
    with loading(f"no {what} can be loaded from {model}"):
        return load_pretrained(auto_class, model, **options)


def _check_complete(model: str | Path, missing: Iterable[str], generates: bool) -> None:
    """Only a classifier may be new: any other missing weight would stay random, frozen and unsaved."""
    unexpected = sorted(name for name in missing if not is_head(name))
    if unexpected:
        needed = "model that generates text" if generates else "checkpoint that has them"
        raise AttangentError(
            f"{model} has no weights for {', '.join(unexpected[:4])}: they would stay random; use a {needed}."
        )


@contextmanager
def silent_transformers() -> Iterator[None]:
    """Silence transformers' report on a new classifier and its progress bars."""
    from transformers.utils import logging

    verbosity = logging.get_verbosity()
    bar = logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bar:
            logging.enable_progress_bar()


def _keep_classifier_in_float32(model: nn.Module, names: list[str]) -> None:
    """Train the classifier of a bfloat16 model in float32, as rounding would lose small steps."""
    for name in names:
        head = getattr(model, name)
        head.float()
        for module in head.modules():
            if isinstance(module, nn.Linear):
                module.register_forward_pre_hook(_cast_inputs)


def _cast_inputs(module: Any, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return tuple(tensor.to(module.weight.dtype) for tensor in inputs)


def quantise(model: Any, quantised: str | None) -> Any:
    """Hold the weights of the linear layers below the classifier in 8 bits; None changes nothing.

    Activations keep their precision, so that gradients can pass.
    """
    if quantised is None:
        return model
    try:
        from torchao.quantization import (  # pyright: ignore[reportMissingImports]
            Int8WeightOnlyConfig,
            quantize_,
        )
    except ImportError:
        raise AttangentError("quantised weights need torchao: pip install attangent[quantised]") from None
    quantize_(model, Int8WeightOnlyConfig(), filter_fn=_is_below_head)
    return model


def _is_below_head(module: nn.Module, name: str) -> bool:
    return isinstance(module, nn.Linear) and not is_head(f"{name}.weight") and "lm_head" not in name


def check_gradients(model: nn.Module, batch: dict[str, Tensor]) -> None:
    """Raise if no gradient passes through a quantised model.

    The classifier on top may get a gradient nevertheless; the trained weights below it must get one.
    """
    if all(type(parameter.data) is Tensor for parameter in model.parameters()):
        return
    inputs = {name: value for name, value in batch.items() if name != "labels"}
    trained = [p for name, p in model.named_parameters() if p.requires_grad and not is_head(name)]
    with torch.enable_grad():
        logits = model(**inputs).logits
        reached = logits.requires_grad
        if reached and trained:
            reached = None not in torch.autograd.grad(logits.float().sum(), trained, allow_unused=True)
    if not reached:
        raise AttangentError(
            "no gradient passes through this quantised model: its activations are quantised too; use a "
            "model of which only the weights are quantised, or the original one."
        )


def with_frozen_adapter(model: Any, folder: Path) -> Any:
    """Return the model with the layers of a frozen peft adapter."""
    try:
        return with_peft_adapter(model, folder).get_base_model()
    except (ValueError, RuntimeError, KeyError) as error:
        reason = str(error).strip().splitlines()[0]
        raise AttangentError(f"{folder} does not fit the model: {reason}") from error


def resolved_pooling(pooling: Pooling, model: str | Path) -> UsedPooling:
    """Resolve `declared` by the model's sentence-transformers config."""
    if pooling != "declared":
        return pooling
    path = Path(model) / _POOLING_FILE if Path(model).is_dir() else _hub_file(str(model))
    if path is None or not path.is_file():
        return "first"
    try:
        content = json.loads(path.read_text())
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise AttangentError(f"{path} is not JSON; mend it, or set the pooling to first or mean.") from None
    content = content if isinstance(content, dict) else {}
    declared = content.get("pooling_mode_mean_tokens") is True or content.get("pooling_mode") == "mean"
    return "normalised" if declared else "first"


def _hub_file(model: str) -> Path | None:
    from huggingface_hub import hf_hub_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        return Path(hf_hub_download(model, _POOLING_FILE))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError):
        return None


def use_mean_pooling(model: Any, normalised: bool = False) -> Any:
    """Let the classifier of an encoder read the mean of the last hidden states, padding excluded.

    If `normalised`, it reads (mean - average) / standard deviation over the dimensions instead: what one more
    layer of the encoder can compute, so that plain transformers can (see `folders.portable`).

    A forward hook puts the mean in place of the pooled output and of the first token, one of which every
    classifier reads. The weights and files of the model do not change.
    """
    base = getattr(model, "base_model", None)
    if not isinstance(base, nn.Module) or base is model or getattr(model, "score", None) is not None:
        raise AttangentError(
            f"{type(model).__name__} has no encoder whose tokens can be averaged; use pooling 'first'."
        )
    base.register_forward_hook(partial(_put_mean, normalised), with_kwargs=True)
    model.attangent_pooling = (
        "normalised" if normalised else "mean"
    )  # checked when an adapter is loaded that was tuned this way
    return model


def _put_mean(
    normalised: bool, _: nn.Module, args: tuple[Any, ...], named: dict[str, Any], output: Any
) -> Any:
    states: Tensor = output.last_hidden_state
    mask = named.get("attention_mask", args[1] if len(args) > 1 else None)
    pooled = mean_over_tokens(states, mask)
    if normalised:
        pooled = F.layer_norm(pooled, pooled.shape[-1:], eps=_EPSILON)
    output.last_hidden_state = torch.cat([pooled.unsqueeze(1), states[:, 1:]], dim=1)
    if getattr(output, "pooler_output", None) is not None:
        output.pooler_output = pooled
    return output


def mean_over_tokens(
    states: Float[Tensor, "batch tokens dim"], mask: Tensor | None
) -> Float[Tensor, "batch dim"]:
    """Return sum_t m_t h_t / sum_t m_t over the tokens t of each row."""
    if mask is None:
        return states.mean(dim=1)
    # A prefix of peft extends the mask on the left, but not the hidden states.
    weights = mask[:, -states.shape[1] :].to(states.dtype).unsqueeze(-1)
    return (states * weights).sum(dim=1) / weights.sum(dim=1).clamp(min=1)
