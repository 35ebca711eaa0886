"""Sizes by head: the total is kept, the tokens are those of the scores, masses and values are fitted."""

import torch

from attangent.attention import RaggedState
from attangent.compression.compressor import Compressor
from attangent.compression.fit import fit_states
from attangent.compression.methods.recall import most_looked_at
from attangent.compression.methods.scoring import best_tokens, head_sizes
from attangent.compression.problem import HeadProblem
from tests.compression.cases import STORY, Letters, Stories, stories_model, tiny_llama


def test_heads_have_the_sizes_of_their_scores_and_keep_what_is_looked_at():
    job = Compressor(tiny_llama(layers=2), Letters(), "some text that is long enough to compress. " * 4)
    found, sizes = job.fit(12), head_sizes(job.scores, 12)
    assert sum(sum(state.sizes) for state in found.states.values()) == 12 * 4
    for name, state in found.states.items():
        keys = job.cache.layers[name][0]
        assert isinstance(state, RaggedState)
        for (own, _, masses), size, whole in zip(state.by_head(), sizes[name], keys, strict=True):
            assert len(own) == len(masses) == size
            assert (masses > 0).all()
            near = torch.cdist(own, whole).amin(dim=1)
            assert (near < whole.std() * whole.shape[1] ** 0.5).all()


def test_the_most_looked_at_tokens_are_chosen_and_the_first_ones_always():
    weights = torch.zeros(3, 9)
    weights[0, 7], weights[1, 5], weights[2, 6], weights[:, 8] = 0.9, 0.5, 0.4, 0.39
    problem = HeadProblem(weights, *(torch.zeros(0),) * 7)
    assert most_looked_at(problem, 6).tolist() == [0, 1, 2, 3, 5, 7]


def test_bytes_are_those_of_the_tokens_kept():
    job = Compressor(tiny_llama(layers=2), Letters(), "some text that is long enough to compress. " * 4)
    assert job.fit(12).number_of_bytes == 12 * 4 * (8 + 8 + 1) * 4


def test_fitting_keeps_more_than_the_tokens_as_they_are():
    job = Compressor(stories_model(), Stories(), STORY)
    kept = best_tokens(job.scores, 24)
    as_they_are = {
        name: RaggedState.of(
            [k[own] for k, own in zip(keys, kept[name], strict=True)],
            [v[own] for v, own in zip(values, kept[name], strict=True)],
            [torch.ones(len(own)) for own in kept[name]],
        )
        for name, (keys, values) in job.cache.layers.items()
    }
    from attangent.compression.fidelity import measure_fidelity

    fitted = fit_states(job.model, job.cache, job.recall_text, 24, "recall", sizes=head_sizes(job.scores, 24))
    ratios = [
        measure_fidelity(job.model, job.cache, states, job.held_out).ratio for states in (fitted, as_they_are)
    ]
    assert ratios[0] < 0.5 * ratios[1]
