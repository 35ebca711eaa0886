import pytest
import torch

from attangent import AttangentError
from attangent.adapters import (
    NTKConfig,
    activate,
    attach,
    delete,
    disabled,
)
from tests.adapters.models import inputs, shake, tiny


def test_unknown_adapters_are_refused_and_the_last_one_is_not_deleted():
    model = attach(tiny("bert"))
    with pytest.raises(AttangentError, match="no adapter 'other', expected one of 'default'"):
        activate(model, "other")
    with pytest.raises(AttangentError, match=r"call attangent\.detach"):
        delete(model, "default")


def test_disabling_between_forward_and_backward_does_no_harm():
    model, given = tiny("bert"), inputs("bert")
    shake(attach(model, NTKConfig(modules_to_save=("classifier",)), calibration=given))

    def gradient(with_reference):
        model.zero_grad()
        loss = model(**given).logits.square().mean()
        if with_reference:
            with disabled(model), torch.no_grad():
                model(**given)
        loss.backward()
        return [p.grad.clone() for p in model.parameters() if p.grad is not None]

    for one, two in zip(gradient(False), gradient(True), strict=True):
        assert torch.equal(one, two)
