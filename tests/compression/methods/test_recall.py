"""Sizes by head: the total is kept, the tokens are those of the scores, masses and values are fitted."""

import torch

from attangent.attention import RaggedState
from attangent.compression.attribution import best_tokens
from attangent.compression.fidelity import measure_fidelity
from attangent.compression.methods import recall
from attangent.compression.methods.recall import RecallMethod
from attangent.compression.pipeline import fit_states
from tests.compression.cases import STORY, Letters, Stories, run_of, stories_model, tiny_llama


def test_heads_keep_the_tokens_of_their_scores(monkeypatch):
    monkeypatch.setattr(recall, "refined", lambda problem, start: start)
    job = run_of(tiny_llama(layers=2), Letters(), "some text that is long enough to compress. " * 4)
    found, kept = job.fit(12), best_tokens(job.scores, 12)
    assert sum(sum(state.sizes) for state in found.states.values()) == 12 * 4
    for name, state in found.states.items():
        keys = job.cache.layers[name][0]
        assert isinstance(state, RaggedState)
        for (own, _, masses), places, whole in zip(state.by_head(), kept[name], keys, strict=True):
            assert len(own) == len(masses) == len(places)
            assert (masses > 0).all()
            assert torch.equal(own, whole[places])


def test_bytes_are_those_of_the_tokens_kept():
    job = run_of(tiny_llama(layers=2), Letters(), "some text that is long enough to compress. " * 4)
    assert job.fit(12).number_of_bytes == 12 * 4 * (8 + 8 + 1) * 4


def test_fitting_keeps_more_than_the_tokens_as_they_are():
    job = run_of(stories_model(), Stories(), STORY)
    kept = best_tokens(job.scores, 24)
    as_they_are = {
        name: RaggedState.of(
            [k[own] for k, own in zip(keys, kept[name], strict=True)],
            [v[own] for v, own in zip(values, kept[name], strict=True)],
            [torch.ones(len(own)) for own in kept[name]],
        )
        for name, (keys, values) in job.cache.layers.items()
    }
    fitted = fit_states(job.model, job.cache, job.calibration, RecallMethod(), kept)
    ratios = [
        measure_fidelity(job.model, job.cache, states, job.held_out).ratio for states in (fitted, as_they_are)
    ]
    assert ratios[0] < 0.5 * ratios[1]
