"""Methods that peft provides: LoRA, prefix tuning (P-tuning v2) and any other peft config."""

import contextlib
import inspect
import re
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from torch import nn

from attangent._core.errors import AttangentError, loading
from attangent._core.files import read_json, write_json
from attangent.adapters.files.format import CONFIG, PEFT_TYPE, WEIGHTS
from attangent.tuning.methods.technique import MethodContext, Technique
from attangent.tuning.tasks import NEEDS, is_head

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method

_VALUE = {"value", "v_proj", "v_lin", "v"}
_QUERY_AND_VALUE = _VALUE | {"query", "q_proj", "q_lin", "q", "c_attn", "query_key_value"}
_BLOCK = re.compile(r"\.(\d+)\.")
NOT_PLAIN = " with mean pooling: use attangent.load_tuned, or `attangent export` for plain transformers"
"""Added to the `peft_type` of an adapter whose classifier reads a mean, which peft alone does not compute."""
ALL_LINEAR = "all-linear"
"""Value of `target_modules`: every linear layer in the blocks."""
# peft setting: scale the matrices by alpha / sqrt(rank) instead of alpha / rank.
RSLORA: Mapping[str, Any] = {"use_rslora": True}


class AnyPeft(Technique):
    """Any peft config: `Method.peft` holds its `peft_type` and its settings."""

    name = "peft"
    bold = 2.0
    reads = ("learning_rate", "top", "peft")

    def default_rate(self, method: "Method") -> float:
        return 2e-3

    def settings(self, model: Any, method: "Method", context: MethodContext) -> dict[str, Any]:
        """Return `peft_type` and the settings of the config."""
        return dict(method.peft)

    def config(self, model: Any, method: "Method", context: MethodContext) -> Any:
        """Build peft's config for this model."""
        from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING

        settings = self.settings(model, method, context)
        kind = settings.pop("peft_type", None)
        known = {
            str(getattr(key, "value", key)): config for key, config in PEFT_TYPE_TO_CONFIG_MAPPING.items()
        }
        if kind not in known:
            raise AttangentError(
                f"peft_type is {kind!r}, expected one of {', '.join(sorted(known))}; set it in [method.peft]."
            )
        accepted = inspect.signature(known[kind]).parameters
        filled = {
            "task_type": NEEDS[context.kind].peft_task,
            "modules_to_save": [*context.classifier] or None,
        }
        chooses = kind not in ("LN_TUNING", "IA3") and "target_modules" in accepted
        if settings.get("target_modules") == ALL_LINEAR:
            settings["target_modules"] = linear_targets(model, method.top)
        elif chooses and "target_modules" not in settings:
            filled["target_modules"] = lora_targets(model, method.top)
        elif method.top is not None:
            raise AttangentError(
                f"top has no effect on {kind} with these settings; leave it out, or name the layers as "
                "target_modules in [method.peft]."
            )
        filled = {name: value for name, value in filled.items() if name in accepted}
        return known[kind](**{**filled, **settings})

    def added(self, model: Any, method: "Method", context: MethodContext) -> Any:
        from peft import get_peft_model

        try:
            with _peft_on(model):
                return get_peft_model(model, self.config(model, method, context))
        except AttangentError:
            raise
        except (TypeError, ValueError, KeyError) as error:
            raise AttangentError(f"peft cannot add {dict(method.peft)} to this model: {error}") from error

    def save(self, model: Any, folder: Path) -> None:
        model.save_pretrained(folder)

    def load(self, model: Any, folder: Path) -> Any:
        return with_peft_adapter(model, folder)


class Lora(AnyPeft):
    """LoRA of rank `rank` on queries and values; `Method.peft` adds settings of peft.LoraConfig."""

    name = "lora"
    completion_factor = 2.5
    reads = ("learning_rate", "top", "peft", "rank")

    def default_rate(self, method: "Method") -> float:
        return 1e-3 if method.peft.get("target_modules") == ALL_LINEAR else 2e-3

    def settings(self, model: Any, method: "Method", context: MethodContext) -> dict[str, Any]:
        return {"peft_type": "LORA", "r": method.rank, "lora_alpha": 2 * method.rank, **method.peft}


class PrefixTokens(AnyPeft):
    """Train keys and values in front of the tokens (P-tuning v2)."""

    name = "prefix"
    bold = 1.0
    reads = ("learning_rate", "tokens")

    def default_rate(self, method: "Method") -> float:
        return 1e-2

    def settings(self, model: Any, method: "Method", context: MethodContext) -> dict[str, Any]:
        if context.kind == "image-classification":
            raise AttangentError(
                "peft has no prefix tuning for vision models; choose ntk, lora, head or full."
            )
        settings = {"peft_type": "PREFIX_TUNING", "num_virtual_tokens": method.tokens}
        return {**settings, "modules_to_save": None}  # peft itself keeps the classifier of a prefix


def linear_targets(model: nn.Module, top: int | None = None) -> list[str]:
    """Return the names of all linear layers in the last `top` blocks, or in all blocks, without heads.

    Args:
        model: A Hugging Face model.
        top: Number of blocks, counted from the last; None for all.

    Returns:
        Names of modules, as peft's `target_modules` takes them.

    Raises:
        AttangentError: If there is no such layer.
    """
    names = [
        name
        for name, module in model.named_modules()
        if type(module).__name__ in ("Linear", "Conv1D") and _BLOCK.search(name) and not is_head(name)
    ]
    if not names:
        raise AttangentError(f"{type(model).__name__} has no linear layers in numbered blocks.")
    return _in_last_blocks(names, top)


def lora_targets(model: nn.Module, top: int | None = None) -> list[str]:
    """Return the names of the query and value projections in the last `top` layers, or in all.

    Args:
        model: A Hugging Face model.
        top: Number of layers, counted from the last; None for all.

    Returns:
        Names of modules, as peft's `target_modules` takes them.

    Raises:
        AttangentError: If no projection has a known name.
    """
    names = [
        name
        for name, module in model.named_modules()
        if name.rpartition(".")[2] in _QUERY_AND_VALUE and getattr(module, "weight", None) is not None
    ]
    if not names:
        raise AttangentError(
            f"{type(model).__name__} has no projection called {', '.join(sorted(_QUERY_AND_VALUE))}; "
            "name its layers as target_modules in [method.peft]."
        )
    return _in_last_blocks(names, top)


def _in_last_blocks(names: list[str], top: int | None) -> list[str]:
    layers = sorted({_layer_number(name) for name in names})
    chosen = set(layers if top is None else layers[-top:])
    return [name for name in names if _layer_number(name) in chosen]


def value_targets(model: nn.Module, top: int | None = None) -> list[str]:
    """Return those of `lora_targets` that project values only."""
    return [name for name in lora_targets(model, top) if name.rpartition(".")[2] in _VALUE]


def _layer_number(name: str) -> int:
    number = _BLOCK.search(name)
    return int(number[1]) if number else 0


def with_peft_adapter(model: Any, folder: Path) -> Any:
    """Return the model with the adapter that peft saved; only safetensors weights are read."""
    from peft import PeftConfig, PeftModel

    if not (folder / WEIGHTS).is_file():
        raise AttangentError(f"{folder} has no {WEIGHTS}; save the adapter as safetensors.")
    with _peft_on(model), loading(f"no peft adapter can be loaded from {folder}"):
        content = read_json(folder / CONFIG)
        content.pop("pooling", None)
        content["peft_type"] = str(content.get("peft_type")).removesuffix(NOT_PLAIN)
        config = PeftConfig.from_peft_type(**content)
        config.inference_mode = True
        return PeftModel.from_pretrained(model, str(folder), config=config)


def refuse_plain_peft(path: Path, pooling: str) -> None:
    """Change an adapter's config so that peft alone rejects it instead of giving other answers."""
    content = read_json(path)
    content |= {"pooling": pooling, "peft_type": str(content["peft_type"]).removesuffix(NOT_PLAIN)}
    if content["peft_type"] != PEFT_TYPE:
        content["peft_type"] += NOT_PLAIN
    write_json(path, content)


@contextlib.contextmanager
def _peft_on(model: nn.Module) -> Iterator[None]:
    """Let peft read the model's checkpointing by the name that transformers 5 gives it.

    Also silence its warning that LoRA cannot be merged into quantised weights: nothing is merged here.
    """
    kind: Any = type(model)
    renamed = hasattr(kind, "is_activation_checkpointing") and "is_gradient_checkpointing" not in vars(kind)
    if renamed:
        kind.is_gradient_checkpointing = property(lambda self: self.is_activation_checkpointing)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*without `get_apply_tensor_subclass`")
            yield
    finally:
        if renamed:
            del kind.is_gradient_checkpointing
