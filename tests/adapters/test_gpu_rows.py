"""Another prefix per row, decoded by one Triton kernel: interpreted here, chosen by device on a GPU."""

import pytest
import torch

pytest.importorskip("triton", reason="pip install 'attangent[gpu]'")

from attangent import attach
from attangent.adapters import NTKConfig, interface
from attangent.attention.backends.triton import attention, launch
from tests.adapters.models import inputs, tiny
from tests.adapters.test_rows import OPTIONS, check, guide

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available() or not launch.INTERPRETED, reason="Triton was imported without its interpreter"
)


@pytest.fixture
def decoded(monkeypatch):
    """Take the path of a GPU; return the outputs of its kernel."""
    outputs = []

    def recorded(*call):
        outputs.append(kernel(*call))
        return outputs[-1]

    kernel = attention.decode_rows
    monkeypatch.setattr(attention, "decode_rows", recorded)
    monkeypatch.setattr(interface, "_on_gpu", lambda q: True)
    return outputs


def test_every_row_is_answered_as_if_alone(decoded):
    model = tiny("llama")
    check(model, [guide(model, 9, 1, ragged=True), None, guide(model, 4, 2)], inputs("llama", side="left"))
    steps = (OPTIONS["max_new_tokens"] - 1) * model.config.num_hidden_layers
    assert len(decoded) == steps
    assert all(out is not None for out in decoded)


def test_maps_without_a_kernel_take_the_general_path(decoded):
    model = attach(tiny("llama"), NTKConfig(features="elu", init="gaussian"), "elu")
    check(model, ["elu", None, "elu"], inputs("llama", side="left"))
    assert decoded == []
