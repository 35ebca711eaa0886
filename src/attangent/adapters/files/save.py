"""Save adapters as adapter_config.json, adapter_model.safetensors and README.md, and load them."""

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_json, write_whole
from attangent._version import __version__
from attangent.adapters.attaching import Model, attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.format import (
    CARD,
    CONFIG,
    FORMAT,
    PEFT_TYPE,
    ROOT,
    TENSOR,
    WEIGHTS,
    describe_state,
)
from attangent.adapters.files.read import read_adapter
from attangent.adapters.layers import attention_layers, bare, chosen_layers
from attangent.adapters.record import fill_saved, record_of, saved_of, states_of
from attangent.attention.files import check_path, save_tensors

_CARD_START = "---\nlibrary_name: attangent\n"
_CARD = Path(__file__).with_name("card.md")


def save_adapter(model: nn.Module, folder: str | PathLike[str], name: str = "default") -> Path:
    """Write one adapter of a model to a folder, each file atomically.

    Tensors keep their dtype; the modules in `modules_to_save` are written too. A README.md that attangent did
    not write is left unchanged.

    Args:
        model: A model with adapters.
        folder: Where to write; it is created if missing.
        name: The adapter to save.

    Returns:
        The folder.

    Raises:
        AttangentError: If there is no such adapter, the folder cannot be written, or it holds a model.

    Example:
        >>> import tempfile
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
        >>> _ = attach(model, NTKConfig(), calibration={"input_ids": torch.randint(20, (1, 6))})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sorted(path.name for path in save_adapter(model, folder).iterdir())
        ['README.md', 'adapter_config.json', 'adapter_model.safetensors']
    """
    states = states_of(model, name)
    config = record_of(model).configs[name]
    return write_adapter(folder, bare(model), config, states, saved_of(model, name))


def write_adapter(
    folder: str | PathLike[str],
    base: nn.Module,
    config: NTKConfig,
    states: Mapping[str, Any],
    modules: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write states by layer name, and tensors of saved modules by parameter name, as an adapter of `base`.

    The adapter need not be attached: only the class and the name of `base` are used.
    """
    check_path("folder", folder)
    folder = Path(folder)
    _check_no_model(folder)
    config = _naming_layers(base, config, states)
    described = _described(base, config, states)
    tensors = _tensors(states) | {ROOT + key: tensor for key, tensor in (modules or {}).items()}
    count = sum(tensor.numel() for tensor in tensors.values())
    card = model_card(described["base_model_name_or_path"], type(base).__name__, config, len(states), count)
    real_folder(folder.resolve())
    save_tensors(folder / WEIGHTS, tensors, {"format": "pt"})
    write_json(folder / CONFIG, described)
    if may_write_card(folder / CARD):
        write_whole(folder / CARD, card)
    return folder


def _check_no_model(folder: Path) -> None:
    """Check that the folder is not that of a model: transformers takes one with both files for an adapter."""
    if (folder / "config.json").is_file():
        raise AttangentError(
            f"{folder} holds a model (config.json), which could not be loaded with an adapter in the same "
            "folder; choose another folder"
        )


def _naming_layers(base: nn.Module, config: NTKConfig, states: Mapping[str, Any]) -> NTKConfig:
    """Return the config; if there are states for fewer layers than it selects, it selects only those."""
    if {layer.name for layer in chosen_layers(base, config)} == set(states):
        return config
    indices = [index for index, layer in enumerate(attention_layers(base)) if layer.name in states]
    return replace(config, layers=tuple(indices))


def load_adapter(model: Model, folder: str | PathLike[str], name: str = "default") -> Model:
    """Attach an adapter that `save_adapter` wrote.

    Args:
        model: A transformers model; it is changed in place.
        folder: The folder, or a Hub id (`owner/name`).
        name: A name for the adapter.

    Returns:
        The model.

    Raises:
        AttangentError: If the files are damaged or do not fit the model, which is then unchanged.

    Example:
        >>> import copy, tempfile
        >>> from transformers import GPT2Config, GPT2LMHeadModel
        >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20)).eval()
        >>> other = copy.deepcopy(model)
        >>> ids = torch.randint(20, (1, 6))
        >>> _ = attach(model, NTKConfig(), calibration={"input_ids": ids})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = load_adapter(other, save_adapter(model, folder))
        >>> torch.equal(other(ids).logits, model(ids).logits)
        True
    """
    attention_layers(bare(model))
    adapter = read_adapter(bare(model), folder)
    attach(model, adapter.config, name, states=adapter.states)
    fill_saved(model, name, adapter.modules)
    return model


def _described(base: Any, config: NTKConfig, states: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of adapter_config.json."""
    return {
        "peft_type": PEFT_TYPE,
        "format": FORMAT,
        "base_model_name_or_path": getattr(base.config, "_name_or_path", "") or "",
        "base_model_class": type(base).__name__,
        "task_type": None,
        "inference_mode": True,
        "ntk": config.as_dict(),
        "modules_to_save": list(config.modules_to_save) or None,
        "states": {layer: describe_state(state) for layer, state in states.items()},
        "versions": _versions(),
    }


def _tensors(states: Mapping[str, Any]) -> dict[str, Tensor]:
    return {
        TENSOR.format(layer=layer, tensor=key): tensor
        for layer, state in states.items()
        for key, tensor in state.state_dict().items()
    }


def _versions() -> dict[str, str]:
    import transformers

    return {"attangent": __version__, "torch": torch.__version__, "transformers": transformers.__version__}


def model_card(base: str, auto: str, config: Any, layers: int, count: int) -> str:
    """Return the card of an adapter with this base model and config, `layers` layers and `count` numbers."""
    return _CARD.read_text().format(
        base=base or "unknown",
        auto=auto,
        features=config.features,
        units=config.resolved_units,
        layers=layers,
        count=f"{count:,}",
        version=__version__,
    )


def may_write_card(path: Path) -> bool:
    """Return whether there is no card yet, or one that attangent wrote."""
    if not path.is_file():
        return not (path.exists() or path.is_symlink())
    with path.open("rb") as file:
        return file.read(len(_CARD_START)) == _CARD_START.encode()
