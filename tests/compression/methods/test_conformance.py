"""The suite that every compression method passes."""

from dataclasses import replace

import pytest
import torch

from attangent.compression.capture import prefill, run
from attangent.compression.methods import METHODS
from attangent.compression.pipeline import fit_states
from attangent.compression.prompt_cache import with_states
from attangent.compression.text import SINKS, Calibration
from benchmarks.suites.compression.second_model import chosen_states
from tests.compression.cases import STORY, Letters, Stories, run_of, stories_model, tiny_llama
from tests.compression.methods.cases import problem

TEXT = "some text that is long enough to be worth compressing, and then a little more. "


@pytest.fixture(params=METHODS)
def method(request):
    return METHODS[request.param]


def scores(layers=3, heads=2, tokens=60):
    draw = torch.Generator().manual_seed(0)
    return {f"model.layers.{i}.self_attn": torch.rand(heads, tokens, generator=draw) for i in range(layers)}


def test_a_choice_has_the_size_asked_for_and_the_first_tokens(method):
    chosen = method.choose(scores(), 16)
    assert list(chosen) == list(scores())
    heads = [head for layer in chosen.values() for head in layer]
    assert sum(map(len, heads)) == 16 * 6
    for head in heads:
        assert head[:SINKS].tolist() == list(range(SINKS))
        assert head.tolist() == sorted(set(head.tolist()))


def test_every_layer_gets_a_state_of_the_size_asked_for(method):
    model = tiny_llama()
    cache = prefill(model, torch.arange(60) % 61)
    text = Calibration.of([torch.arange(20), torch.arange(7)])
    seen = []
    states = fit_states(model, cache, text, method, method.choose(scores(), 16), seen.append)
    assert list(states) == list(cache.layers)
    assert seen == [1, 1, 1]
    floats = sum(tensor.numel() for state in states.values() for tensor in state.state_dict().values())
    assert floats == 3 * 2 * 16 * (8 + 8 + 1)
    with torch.no_grad():
        assert torch.isfinite(run(model, torch.arange(9)[None], 60, with_states(states)).logits).all()


def test_a_head_gets_finite_tokens_with_positive_masses(method):
    keys, masses, values = method.fit_head(problem(m=24), torch.arange(10))
    assert keys.shape == values.shape == (10, 4)
    assert masses.shape == (10,)
    assert (masses > 0).all()
    assert method.weighted or (masses == 1).all()
    assert torch.isfinite(keys).all()
    assert torch.isfinite(values).all()


def test_saved_states_answer_the_same(method, tmp_path):
    import attangent

    model = tiny_llama(layers=1)
    prompt = attangent.compress(model, Letters(), TEXT, size=10, method=method.name)
    prompt.save(model, tmp_path)
    prompt.attach(model)
    other = tiny_llama(layers=1)
    attangent.load_adapter(other, tmp_path)
    ids = torch.arange(9)[None]
    assert torch.equal(model(ids).logits, other(ids).logits)


def test_on_a_trained_model_a_fit_keeps_far_more_than_the_chosen_tokens(method):
    job = run_of(stories_model(), Stories(), STORY)
    chosen = method.choose(job.scores, 24)
    fitted = job.fit(24, method.name)
    unchanged = replace(fitted, states=chosen_states(job.cache, chosen))
    assert job.fidelity(fitted).ratio < 0.5 * job.fidelity(unchanged).ratio
