"""Fidelity against slow sums over the same tokens."""

import pytest
import torch

from attangent.compression.fidelity import measure_fidelity
from attangent.compression.text import Calibration
from tests.compression.cases import Letters, run_of, selected, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


@pytest.fixture(scope="module")
def job():
    return run_of(tiny_llama(layers=2), Letters(), TEXT)


def test_the_numbers_are_those_of_the_definition(job):
    found = selected(job, 10)
    rows = [torch.arange(3, 9), torch.arange(20, 30)]
    measured = measure_fidelity(job.model, job.cache, found.states, Calibration.of(rows))
    divergence, loss, agree = {"compressed": 0.0, "none": 0.0}, {"full": 0.0, "none": 0.0}, 0
    found.attach(job.model)
    try:
        with torch.no_grad():
            compressed = [job.model(row[None]).logits[0].log_softmax(-1) for row in rows]
    finally:
        from attangent import detach

        detach(job.model)
    for row, other in zip(rows, compressed, strict=True):
        with torch.no_grad():
            full = job.model(torch.cat([job.ids, row])[None]).logits[0, len(job.ids) :].log_softmax(-1)
            none = job.model(row[None]).logits[0].log_softmax(-1)
        for name, said in (("compressed", other), ("none", none)):
            divergence[name] += (full.exp() * (full - said)).sum().item() / 16
        for name, said in (("full", full), ("none", none)):
            loss[name] -= said[:-1].gather(1, row[1:, None]).sum().item() / 14
        agree += (full.argmax(-1) == none.argmax(-1)).sum().item()
    for name, value in divergence.items():
        assert measured.divergence[name] == pytest.approx(value, rel=1e-3, abs=1e-4)
    for name, value in loss.items():
        assert measured.loss[name] == pytest.approx(value, rel=1e-3)
    assert measured.agreement["none"] == pytest.approx(agree / 16)
    assert measured.ratio == pytest.approx(divergence["compressed"] / divergence["none"], rel=1e-3)
