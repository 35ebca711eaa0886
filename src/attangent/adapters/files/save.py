"""Adapters in the files people know: adapter_config.json, adapter_model.safetensors, README.md."""

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.files import real_folder, write_json, write_whole
from attangent._version import __version__
from attangent.adapters.attaching import attach
from attangent.adapters.config import NTKConfig
from attangent.adapters.files.card import is_our_card, model_card
from attangent.adapters.files.describe import describe_state
from attangent.adapters.files.format import CARD, CONFIG, FORMAT, PEFT_TYPE, ROOT, TENSOR, WEIGHTS
from attangent.adapters.files.read import read_adapter
from attangent.adapters.layers import attention_layers, bare
from attangent.adapters.record import record_of, states_of
from attangent.adapters.saved_modules import fill_saved, saved_of
from attangent.attention.files import check_path, save_tensors


def save_adapter(model: Any, folder: str | PathLike[str], name: str = "default") -> Path:
    """Write one adapter of the model to a folder, each file whole or not at all; the folder is returned.

    The tensors keep their dtype; modules that `modules_to_save` names are written with them. A README.md
    that attangent did not write stays as it is.

    >>> import tempfile
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20))
    >>> _ = attach(model, NTKConfig(), calibration={"input_ids": torch.randint(20, (1, 6))})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     sorted(path.name for path in save_adapter(model, folder).iterdir())
    ['README.md', 'adapter_config.json', 'adapter_model.safetensors']
    """
    states, config = states_of(model, name), record_of(model).configs[name]
    return write_adapter(folder, bare(model), config, states, saved_of(model, name))


def write_adapter(
    folder: str | PathLike[str],
    base: nn.Module,
    config: NTKConfig,
    states: Mapping[str, Any],
    modules: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write states by layer name, and tensors of saved modules by parameter name, as an adapter of `base`.

    Nothing is attached: of `base` only its class and the name it was loaded by are written.
    """
    check_path("folder", folder)
    folder = Path(folder)
    described = _described(base, config, states)
    tensors = _tensors(states) | {ROOT + key: tensor for key, tensor in (modules or {}).items()}
    count = sum(tensor.numel() for tensor in tensors.values())
    card = model_card(described["base_model_name_or_path"], type(base).__name__, config, len(states), count)
    real_folder(folder.resolve())
    save_tensors(folder / WEIGHTS, tensors, {"format": "pt"})
    write_json(folder / CONFIG, described)
    if is_our_card(folder / CARD):
        write_whole(folder / CARD, card)
    return folder


def load_adapter(model: Any, folder: str | PathLike[str], name: str = "default") -> Any:
    """Attach the adapter that `save_adapter` wrote to a folder, or that lies on the hub under this id.

    Everything in the files is checked against the model before the model is touched; a refusal names the
    layer that differs.

    >>> import copy, tempfile
    >>> from transformers import GPT2Config, GPT2LMHeadModel
    >>> model = GPT2LMHeadModel(GPT2Config(n_embd=8, n_layer=1, n_head=2, vocab_size=20)).eval()
    >>> bare_model, ids = copy.deepcopy(model), torch.randint(20, (1, 6))
    >>> _ = attach(model, NTKConfig(), calibration={"input_ids": ids})
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = load_adapter(bare_model, save_adapter(model, folder))
    >>> torch.equal(bare_model(ids).logits, model(ids).logits)
    True
    """
    attention_layers(bare(model))
    adapter = read_adapter(bare(model), folder)
    attach(model, adapter.config, name, states=adapter.states)
    fill_saved(model, name, adapter.modules)
    return model


def _described(base: Any, config: NTKConfig, states: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of adapter_config.json."""
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
