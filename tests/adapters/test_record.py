import copy

import pytest
import torch

from attangent import AttangentError
from attangent.adapters import (
    NTKConfig,
    activate,
    active_adapters,
    attach,
    detach,
    disabled,
    load_adapter,
    save_adapter,
    states_of,
)
from tests.adapters.models import inputs, logits, tiny


def test_asking_a_bare_model_for_adapters_is_refused():
    for ask in (detach, active_adapters, states_of, lambda m: activate(m, "x")):
        with pytest.raises(AttangentError, match="no adapter attached"):
            ask(tiny("bert"))


def test_every_adapter_has_its_own_classifier(tmp_path):
    model, given = tiny("bert"), inputs("bert")
    bare = logits(model, given)
    weight = model.classifier.weight
    attach(model, NTKConfig(share=0, modules_to_save=("classifier",)), "one")
    with torch.no_grad():
        weight.add_(1)
    one = logits(model, given)
    attach(model, NTKConfig(share=0, modules_to_save=("classifier",)), "two")
    assert torch.equal(logits(model, given), bare)
    with torch.no_grad():
        weight.sub_(2)
    two = logits(model, given)
    with disabled(model):
        assert torch.equal(logits(model, given), bare)
    assert torch.equal(logits(model, given), two)
    twin = copy.deepcopy(model)
    assert torch.equal(logits(activate(twin, "one"), given), one)
    assert torch.equal(logits(model, given), two)
    activate(model, "one")
    assert torch.equal(logits(model, given), one)
    for name, expected in (("one", one), ("two", two)):
        save_adapter(model, tmp_path / name, name)
        assert torch.equal(logits(load_adapter(tiny("bert"), tmp_path / name), given), expected)
    detach(model)
    assert model.classifier.weight is weight
    assert torch.equal(logits(model, given), bare)
