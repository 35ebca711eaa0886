"""Distillation: its loss against autograd-free sums, what it gains, and that it goes on where it stopped."""

import pytest
import torch

from attangent import AttangentError
from attangent.compression.capture import run, with_states
from attangent.compression.compressor import Compressor
from attangent.compression.distilling.distill import (
    Distillation,
    Teacher,
    distill_states,
    enough_steps,
    fitting_rate,
)
from attangent.compression.distilling.lessons import Lessons
from attangent.compression.distilling.virtual import VirtualTokens
from tests.compression.cases import Letters, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


@pytest.fixture
def job():
    return Compressor(tiny_llama(layers=2), Letters(), TEXT, samples=4)


def test_gradients_reach_keys_values_and_masses_in_every_layer(job):
    prefixes = {name: VirtualTokens(state) for name, state in job.fit(8).states.items()}
    logits = run(job.model, job.text.ids[:2], len(job.ids), with_states(prefixes)).logits
    logits.square().mean().backward()
    for prefix in prefixes.values():
        assert all(step.grad is not None and step.grad.abs().max() > 0 for step in prefix.steps)


def test_the_teachers_divergence_is_that_of_the_whole_vocabulary_where_all_of_it_is_kept():
    torch.manual_seed(0)
    one, other = torch.randn(2, 5, 40).unbind()
    p, q = one.log_softmax(-1), other.log_softmax(-1)
    exact = (p.exp() * (p - q)).sum(-1).mean()
    torch.testing.assert_close(Teacher.of(one).divergence(other), exact, atol=1e-4, rtol=1e-4)
    assert Teacher.of(one).divergence(one).abs() < 1e-5


def test_what_is_not_kept_counts_as_one(monkeypatch):
    torch.manual_seed(0)
    monkeypatch.setattr("attangent.compression.distilling.distill._KEPT", 3)
    one, other = torch.randn(2, 5, 40).unbind()
    p, q = one.softmax(-1), other.softmax(-1)
    top = p.topk(3).indices
    kept_p, kept_q = p.gather(1, top), q.gather(1, top)
    rest_p, rest_q = 1 - kept_p.sum(1), 1 - kept_q.sum(1)
    exact = ((kept_p * (kept_p / kept_q).log()).sum(1) + rest_p * (rest_p / rest_q).log()).mean()
    torch.testing.assert_close(Teacher.of(one).divergence(other), exact, atol=1e-5, rtol=1e-4)


def test_training_lowers_the_loss(job):
    start, losses = job.fit(6, "select"), []
    plan = Distillation(30, batch=4, rate=0.02)
    distill_states(job.model, job.cache, start.states, job.lessons, plan, progress=losses.append)
    assert sum(losses[-5:]) < 0.6 * sum(losses[:5])


def test_a_run_cut_off_goes_on_to_the_same_states(job, tmp_path):
    start, plan = job.fit(6), Distillation(8, save_every=2)
    whole = distill_states(job.model, job.cache, start.states, job.lessons, plan)

    class CutOff(Exception):
        pass

    seen = []

    def stop(loss):
        seen.append(loss)
        if len(seen) == 6:
            raise CutOff

    with pytest.raises(CutOff):
        distill_states(job.model, job.cache, start.states, job.lessons, plan, tmp_path / "c", stop)
    again = []
    resumed = distill_states(
        job.model, job.cache, start.states, job.lessons, plan, tmp_path / "c", again.append
    )
    assert len(again) == 4
    for name, state in whole.items():
        assert torch.equal(resumed[name].Z, state.Z)
        assert torch.equal(resumed[name].features.keys, state.features.keys)


def test_a_checkpoint_of_another_run_is_not_used_and_a_broken_one_is_refused(job, tmp_path):
    start, seen = job.fit(6), []
    distill_states(job.model, job.cache, start.states, job.lessons, Distillation(2), tmp_path / "c")
    other = Distillation(3)
    distill_states(job.model, job.cache, start.states, job.lessons, other, tmp_path / "c", seen.append)
    assert len(seen) == 3
    (tmp_path / "c").write_bytes(b"nonsense")
    with pytest.raises(AttangentError, match="is no checkpoint"):
        distill_states(job.model, job.cache, start.states, job.lessons, other, tmp_path / "c")


@pytest.mark.parametrize("changes", [{"steps": 0}, {"batch": 0}, {"rate": 0.0}, {"save_every": -1}])
def test_plans_that_cannot_be_are_refused(changes):
    with pytest.raises(AttangentError):
        Distillation(**({"steps": 5} | changes))


def test_masses_stay_one_where_tokens_have_none_of_their_own(job, tmp_path):
    start = job.fit(6, "plain")
    trained = job.distill(start, Distillation(3, rate=0.05))
    for name, state in trained.states.items():
        assert torch.equal(state.k, torch.ones_like(state.k))
        assert not torch.equal(state.features.keys, start.states[name].features.keys)
    start = job.fit(6, "anchors")
    free = job.distill(start, Distillation(3, rate=0.05))
    assert not any(torch.equal(state.k, start.states[name].k) for name, state in free.states.items())


def test_without_a_plan_the_text_is_read_twice_within_bounds(job):
    turns = job.scored_turns
    few, many = Lessons.of(turns[:1]), Lessons.of(turns * 200)
    assert enough_steps(few) == 12
    assert enough_steps(many) == 24
    between = Lessons.of(turns * 16)
    assert enough_steps(between, batch=2) == len(between)
    assert job.distill(job.fit(6)).distilled == 12


def test_the_rate_is_smaller_where_less_is_wrong_at_the_start(job):
    assert fitting_rate(0.5) == fitting_rate(0.06) == 0.006
    assert fitting_rate(0.01) == pytest.approx(0.001)
    start = job.fit(6)
    losses: list[float] = []
    args = job.model, job.cache, start.states, job.lessons
    distill_states(*args, Distillation(1), progress=losses.append)
    free, given = (distill_states(*args, Distillation(4, rate=r)) for r in (None, fitting_rate(losses[0])))
    for name, state in free.items():
        assert torch.equal(state.Z, given[name].Z)
