"""An adapter folder that tests change, and what must then be refused."""

import json

import pytest
from safetensors import safe_open
from safetensors.torch import save_file

from attangent import AttangentError
from attangent.adapters import load_adapter
from attangent.adapters.files.format import CONFIG, WEIGHTS
from tests.adapters.models import tiny

LAYER = "bert.encoder.layer.1.attention.self"


def rewrite(folder, change):
    described = json.loads((folder / CONFIG).read_text())
    change(described)
    (folder / CONFIG).write_text(json.dumps(described))


def tensors(folder):
    with safe_open(folder / WEIGHTS, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118


def retensor(folder, change):
    found = tensors(folder)
    change(found)
    save_file(found, folder / WEIGHTS)


def key(tensor):
    return f"base_model.model.{LAYER}.attangent_prefix.states.{tensor}"


def refused(folder, model=None):
    model = tiny("bert") if model is None else model
    before = list(model.state_dict())
    with pytest.raises(AttangentError) as error:
        load_adapter(model, folder)
    assert list(model.state_dict()) == before
    assert all(parameter.requires_grad for parameter in model.parameters())
    return str(error.value)
