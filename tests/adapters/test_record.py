import copy
from threading import Event, Thread

import pytest
import torch

from attangent import AttangentError
from attangent.adapters import (
    NTKConfig,
    activate,
    active_adapters,
    attach,
    delete,
    detach,
    disabled,
    load_adapter,
    save_adapter,
    states_of,
)
from tests.adapters.models import inputs, logits, shake, tiny


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


def test_disabled_in_threads_ends_with_the_adapter_acting():
    """Two threads that overlap: the first to come is the first to leave."""
    model, given = tiny("bert"), inputs("bert")
    bare = logits(model, given)
    shake(attach(model, calibration=given))
    acting = logits(model, given)
    first_inside, second_inside, first_gone = Event(), Event(), Event()
    seen = []

    def first():
        with disabled(model):
            first_inside.set()
            second_inside.wait(10)
        first_gone.set()

    def second():
        first_inside.wait(10)
        with disabled(model):
            second_inside.set()
            first_gone.wait(10)
            seen.append(logits(model, given))

    threads = [Thread(target=first), Thread(target=second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(seen[0], bare)
    assert torch.equal(logits(model, given), acting)


def test_disabled_nests():
    model, given = shake(attach(tiny("bert"), calibration=inputs("bert"))), inputs("bert")
    acting = logits(model, given)
    with disabled(model):
        with disabled(model):
            pass
        assert not torch.equal(logits(model, given), acting)
    assert torch.equal(logits(model, given), acting)
