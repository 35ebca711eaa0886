"""A penalty that is fixed is the one that is used."""

import numpy as np
import pytest
import torch

from attangent.tuning import start
from benchmarks.suites.tuning import start_penalties


@pytest.mark.parametrize("strength", start_penalties.STRENGTHS)
def test_the_start_has_the_penalty_that_is_asked_for(strength, monkeypatch):
    draw = np.random.default_rng(0)
    x, y = draw.normal(size=(30, 4)), np.arange(30) % 2
    used = []

    def run(*_):
        used.append(start.fit_classifier(torch.nn.Linear(4, 2), x, y, leave_error=True))
        return {"test": {"accuracy": 1.0, "loss": 0.0}}

    monkeypatch.setattr(start_penalties, "one_run", run)
    found = start_penalties.trained(None, "lora", strength)
    assert used == [start.HeadFit(strength, strength, confident=False)]
    assert found == {"method": "lora", "strength": strength, "accuracy": 1.0, "loss": 0.0}
