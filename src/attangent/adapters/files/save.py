"""Adapters in the files people know: adapter_config.json, adapter_model.safetensors, README.md."""

import json
import os
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from attangent._version import __version__
from attangent.adapters.attaching import attach
from attangent.adapters.files.card import model_card
from attangent.adapters.files.describe import describe_state
from attangent.adapters.files.format import CARD, CONFIG, FORMAT, PEFT_TYPE, ROOT, TENSOR, WEIGHTS
from attangent.adapters.files.read import read_adapter
from attangent.adapters.layers import bare
from attangent.adapters.record import record_of, states_of
from attangent.adapters.saved_modules import fill_head, head_of


def save_adapter(model: Any, folder: str | PathLike[str], name: str = "default") -> Path:
    """Write one adapter of the model to a folder, each file whole or not at all; the folder is returned.

    The tensors keep their dtype; modules that `modules_to_save` names are written with them.
    """
    base, folder = bare(model), Path(folder)
    states = states_of(model, name)
    config = record_of(model).configs[name]
    tensors = _tensors(states) | {ROOT + key: tensor for key, tensor in head_of(model, name).items()}
    base_name = getattr(base.config, "_name_or_path", "") or ""
    described = {
        "peft_type": PEFT_TYPE,
        "format": FORMAT,
        "base_model_name_or_path": base_name,
        "base_model_class": type(base).__name__,
        "task_type": None,
        "inference_mode": True,
        "ntk": config.as_dict(),
        "modules_to_save": list(config.modules_to_save) or None,
        "states": {layer: describe_state(state) for layer, state in states.items()},
        "versions": _versions(),
    }
    card = model_card(
        base_name, type(base).__name__, config, len(states), sum(t.numel() for t in tensors.values())
    )
    folder.mkdir(parents=True, exist_ok=True)
    _write(folder / WEIGHTS, lambda part: _save_tensors(tensors, part))
    _write(folder / CONFIG, lambda part: part.write_text(json.dumps(described, indent=2) + "\n"))
    _write(folder / CARD, lambda part: part.write_text(card))
    return folder


def load_adapter(model: Any, folder: str | PathLike[str], name: str = "default") -> Any:
    """Attach the adapter that `save_adapter` wrote to a folder, or that lies on the hub under this id.

    Everything in the files is checked against the model before the model is touched; a refusal names the
    layer that differs.
    """
    adapter = read_adapter(bare(model), folder)
    attach(model, adapter.config, name, states=adapter.states)
    fill_head(model, name, adapter.modules)
    return model


def _tensors(states: dict[str, Any]) -> dict[str, Tensor]:
    return {
        TENSOR.format(layer=layer, tensor=key): tensor
        for layer, state in states.items()
        for key, tensor in state.state_dict().items()
    }


def _versions() -> dict[str, str]:
    import transformers

    return {"attangent": __version__, "torch": torch.__version__, "transformers": transformers.__version__}


def _save_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    from safetensors.torch import save_file

    whole = {name: tensor.detach().cpu().contiguous().clone() for name, tensor in tensors.items()}
    save_file(whole, path, metadata={"format": "pt"})


def _write(path: Path, write: Callable[[Path], Any]) -> None:
    part = path.with_name(path.name + ".part")
    try:
        write(part)
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)
