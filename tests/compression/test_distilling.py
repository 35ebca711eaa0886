"""Distillation: lessons, virtual tokens, the loss, what training gains, and resuming."""

import pytest
import torch

from attangent import AttangentError
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors, Elu
from attangent.compression import bfloat16, distilling
from attangent.compression.attribution import Teacher, lesson_rows
from attangent.compression.bfloat16 import fast_products
from attangent.compression.capture import run
from attangent.compression.distilling import (
    Distillation,
    VirtualTokens,
    can_choose_logits,
    distill_states,
    enough_steps,
    fitting_rate,
    only_logits_of,
)
from attangent.compression.prompt_cache import whole_prompt, with_states
from attangent.compression.resume_cache import ResumeCache
from attangent.compression.text import Turn
from tests.compression.cases import Letters, decoders, run_of, selected, tiny_llama

TEXT = "some text that is long enough to be worth compressing, and then a little more. " * 2


def turn(asked, answer):
    return Turn(torch.arange(asked) + 1, torch.arange(answer) + 20)


def test_short_turns_share_a_row_and_only_their_answers_count():
    lessons = lesson_rows([turn(3, 4), turn(90, 6), turn(0, 5), turn(4, 0), turn(0, 1)])
    assert len(lessons) == 2  # the last two cannot be learnt
    assert [len(row.counted) for row in lessons] == [6, 4 + 4]
    assert lessons[1].answers.tolist() == [20, 21, 22, 23, 21, 22, 23, 24]


def test_nothing_to_learn_is_refused():
    with pytest.raises(AttangentError, match="nothing to train on"):
        lesson_rows([turn(4, 0)])


def test_turns_in_one_row_are_read_as_each_by_itself():
    job = run_of(tiny_llama(layers=2), Letters(), TEXT)
    turns = [turn(3, 8), turn(2, 5), turn(0, 6)]
    lessons = lesson_rows(turns)
    assert len(lessons) == 1
    together = lessons[0].logits(job.model, job.cache.length, whole_prompt(job.cache))
    alone = []
    for one in turns:
        logits = run(job.model, one.ids[None], job.cache.length, whole_prompt(job.cache)).logits[0]
        alone.append(logits[max(0, len(one.asked) - 1) : -1])
    torch.testing.assert_close(together, torch.cat(alone), atol=1e-5, rtol=1e-4)


def drawn_state(heads=2, r=5, d=8, seed=0):
    draw = torch.Generator().manual_seed(seed)
    keys, values = torch.randn(2, heads, r, d, generator=draw).unbind()
    masses = torch.rand(heads, r, generator=draw) + 0.1
    return PrefixState(Anchors(keys), values * masses.unsqueeze(-1), masses)


def ragged_state(seed=0):
    draw = torch.Generator().manual_seed(seed)
    keys, values = ([torch.randn(r, 8, generator=draw) for r in (2, 6)] for _ in range(2))
    return RaggedState.of(keys, values, [torch.rand(r, generator=draw) + 0.1 for r in (2, 6)])


def test_virtual_tokens_begin_and_end_as_the_state_they_are():
    state = drawn_state()
    tokens = VirtualTokens(state)
    for now, before in zip(tokens.state().weights(), state.weights(), strict=True):
        torch.testing.assert_close(now, before)
    torch.testing.assert_close(tokens.state().features.keys, state.features.keys)
    ragged = ragged_state()
    same = VirtualTokens(ragged).state()
    assert same.sizes == ragged.sizes
    for now, before in zip(same.tokens(), ragged.tokens(), strict=True):
        torch.testing.assert_close(now, before)
    with pytest.raises(AttangentError, match="can be distilled"):
        VirtualTokens(PrefixState.zero(Elu(4), heads=2))


@pytest.mark.parametrize("make", [drawn_state, ragged_state])
def test_gradients_are_those_of_a_finite_difference(make):
    torch.manual_seed(0)
    state, (q, k, v) = make().double(), torch.randn(3, 1, 4, 3, 8, dtype=torch.float64).unbind()
    from attangent.attention import ntk_attention

    def loss(keys, values, masses):
        tokens = VirtualTokens(state)
        tokens.units = 1.0, 1.0, 1.0
        del tokens.steps
        tokens.steps = keys, values, masses
        return ntk_attention(q, k, v, tokens).square().sum()

    steps = [torch.zeros_like(s, requires_grad=True) for s in VirtualTokens(state).starts]
    assert torch.autograd.gradcheck(loss, steps)


@pytest.fixture
def job():
    return run_of(tiny_llama(layers=2), Letters(), TEXT)


def test_gradients_reach_keys_values_and_masses_in_every_layer(job):
    prefixes = {name: VirtualTokens(state) for name, state in job.fit(8).states.items()}
    logits = run(job.model, job.held_out.ids[:2], len(job.ids), with_states(prefixes)).logits
    logits.square().mean().backward()
    for prefix in prefixes.values():
        assert all(step.grad is not None and step.grad.abs().max() > 0 for step in prefix.steps)


def test_the_weights_of_a_trainable_model_get_no_gradients(job):
    job.model.requires_grad_(True)
    trained = job.distill(job.fit(8), 2)
    assert trained.distilled == 2
    assert all(weight.grad is None for weight in job.model.parameters())


def exact_divergence(one, other, tokens):
    """KL among some tokens, the slow way: renormalised probabilities of the whole vocabulary."""
    p, q = one.softmax(-1)[:, tokens], other.softmax(-1)[:, tokens]
    p, q = p / p.sum(-1, keepdim=True), q / q.sum(-1, keepdim=True)
    return (p * (p / q).log()).sum(-1).mean()


@pytest.mark.parametrize("likeliest", [3, 64])
def test_the_teachers_divergence_is_that_among_the_likely_tokens(monkeypatch, likeliest):
    torch.manual_seed(0)
    monkeypatch.setattr("attangent.compression.attribution._LIKELIEST", likeliest)
    one, other = torch.randn(2, 5, 40).unbind()
    teacher = Teacher.of(one)
    tokens = sorted({token for row in one for token in row.topk(min(likeliest, 40)).indices.tolist()})
    assert teacher.tokens.tolist() == tokens
    assert len(tokens) == 40 or 3 < len(tokens) < 16
    exact = exact_divergence(one, other, tokens)
    torch.testing.assert_close(teacher.divergence(other[:, tokens]), exact, atol=1e-5, rtol=1e-4)
    assert teacher.divergence(one[:, tokens]).abs() < 1e-6


@pytest.fixture
def losses(monkeypatch):
    """The loss of every step."""
    seen, real = [], distilling._add_gradients

    def spy(*arguments):
        seen.append(real(*arguments))
        return seen[-1]

    monkeypatch.setattr(distilling, "_add_gradients", spy)
    return seen


def test_gradients_are_the_same_if_all_logits_are_computed(job, monkeypatch):
    monkeypatch.setattr("attangent.compression.attribution._LIKELIEST", 2)
    trained = []
    for chooses in (True, False):
        monkeypatch.setattr(distilling, "can_choose_logits", lambda model, chooses=chooses: chooses)
        plan = Distillation(3, rate=0.02)
        trained.append(distill_states(job.model, job.cache, job.fit(6).states, job.lessons, plan))
    for one, other in zip(*(states.values() for states in trained), strict=True):
        for now, slow in zip(one.weights(), other.weights(), strict=True):
            torch.testing.assert_close(now, slow, atol=1e-4, rtol=1e-3)


def test_training_lowers_the_loss(job, losses):
    start = selected(job, 6)
    plan = Distillation(30, batch=4, rate=0.02)
    distill_states(job.model, job.cache, start.states, job.lessons, plan)
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

    cache = ResumeCache(tmp_path)
    with pytest.raises(CutOff):
        distill_states(job.model, job.cache, start.states, job.lessons, plan, cache, stop)
    again = []
    resumed = distill_states(job.model, job.cache, start.states, job.lessons, plan, cache, again.append)
    assert len(again) == 4
    for name, state in whole.items():
        assert torch.equal(resumed[name].Z, state.Z)
        assert torch.equal(resumed[name].features.keys, state.features.keys)


def test_a_checkpoint_of_another_run_is_not_used_and_a_broken_one_is_refused(job, tmp_path):
    start, seen = job.fit(6), []
    cache = ResumeCache(tmp_path)
    distill_states(job.model, job.cache, start.states, job.lessons, Distillation(2), cache)
    other = Distillation(3)
    distill_states(job.model, job.cache, start.states, job.lessons, other, cache, seen.append)
    assert len(seen) == 3
    assert cache.folder is not None
    for path in cache.folder.iterdir():
        path.write_bytes(b"nonsense")
    with pytest.raises(AttangentError, match="remove it to start again"):
        distill_states(job.model, job.cache, start.states, job.lessons, other, cache)


@pytest.mark.parametrize("changes", [{"steps": 0}, {"batch": 0}, {"rate": 0.0}, {"save_every": -1}])
def test_plans_that_cannot_be_are_refused(changes):
    with pytest.raises(AttangentError):
        Distillation(**({"steps": 5} | changes))


def test_masses_stay_one_where_tokens_have_none_of_their_own(job, tmp_path):
    start = job.fit(6, "plain")
    trained = job.distill(start, 3)
    for name, state in trained.states.items():
        assert torch.equal(state.k, torch.ones_like(state.k))
        assert not torch.equal(state.features.keys, start.states[name].features.keys)
    start = job.fit(6)
    free = job.distill(start, 3)
    assert not any(torch.equal(state.k, start.states[name].k) for name, state in free.states.items())


def test_without_a_plan_the_text_is_read_twice_within_bounds(job):
    assert enough_steps(1) == 12
    assert enough_steps(200) == 18
    assert enough_steps(15, batch=2) == 15
    assert job.distill(job.fit(6)).distilled == 12


def test_scoring_leaves_the_teachers_that_training_needs(job):
    _ = job.scores
    known = dict(job._teachers)
    assert sorted(known) == list(range(len(job.scored_rows)))
    start = job.fit(6)
    fresh = distill_states(job.model, job.cache, start.states, job.lessons, Distillation(2))
    shared = distill_states(
        job.model, job.cache, start.states, job.lessons, Distillation(2), teachers=job._teachers
    )
    for name, state in fresh.items():
        torch.testing.assert_close(shared[name].Z, state.Z, atol=1e-5, rtol=1e-4)
    assert all(job._teachers[index] is teacher for index, teacher in known.items())


def test_the_rate_is_smaller_where_less_is_wrong_at_the_start(job, losses):
    assert fitting_rate(0.5) == fitting_rate(0.06) == 0.006
    assert fitting_rate(0.01) == pytest.approx(0.001)
    start = job.fit(6)
    args = job.model, job.cache, start.states, job.lessons
    distill_states(*args, Distillation(1))
    free, given = (distill_states(*args, Distillation(4, rate=r)) for r in (None, fitting_rate(losses[0])))
    for name, state in free.items():
        assert torch.equal(state.Z, given[name].Z)


TOKENS = torch.tensor([0, 7, 8, 60])


@pytest.mark.parametrize("name", ["llama", "gpt2", "qwen3", "gemma2"])
def test_chosen_logits_are_those_of_all(name):
    """Gemma 2 has a softcap after its output layer; some of these models tie its weights."""
    torch.manual_seed(0)
    model = decoders()[name]().eval()
    assert can_choose_logits(model)
    text = torch.arange(18).view(2, 9)
    with torch.no_grad():
        expected = model(text).logits
        with only_logits_of(model, TOKENS):
            found = model(text).logits
        assert torch.equal(model(text).logits, expected)
    torch.testing.assert_close(found, expected[..., TOKENS])


def test_chosen_logits_have_the_bias_and_the_products_of_the_layer(monkeypatch):
    monkeypatch.setattr(bfloat16, "has_fast_products", lambda: True)
    model = tiny_llama(layers=1, vocabulary=4096)
    model.lm_head = torch.nn.Linear(32, 4096).requires_grad_(False)
    text = torch.arange(5)[None]
    with torch.no_grad(), fast_products(model):
        halved = vars(model.lm_head)["forward"]
        expected = model(text).logits
        assert can_choose_logits(model)
        with only_logits_of(model, TOKENS):
            torch.testing.assert_close(model(text).logits, expected[..., TOKENS])
        assert vars(model.lm_head)["forward"] is halved
    assert "forward" not in vars(model.lm_head)


def test_the_output_layer_is_restored_after_an_exception():
    model = tiny_llama(layers=1)
    expected = model(torch.arange(40)[None]).logits
    with pytest.raises(KeyError), only_logits_of(model, TOKENS):
        raise KeyError
    assert torch.equal(model(torch.arange(40)[None]).logits, expected)


class Masked(torch.nn.Module):
    """A model that forbids a token after its output layer, as some with image tokens do."""

    def __init__(self, model, forbid):
        super().__init__()
        self.model = model
        self.forbid = forbid
        self.device = model.device

    def get_output_embeddings(self):
        return self.model.get_output_embeddings()

    def forward(self, *ids, **options):
        out = self.model(*ids, **options)
        out.logits[..., self.forbid] = -1e9
        return out


@pytest.mark.parametrize("forbid", [2, 100])
def test_all_logits_are_computed_if_a_later_step_needs_them(forbid):
    assert not can_choose_logits(Masked(tiny_llama(layers=1), forbid))


def test_all_logits_are_computed_by_unusual_output_layers():
    class Quantised(torch.nn.Linear):
        pass

    model = tiny_llama(layers=1)
    hook = model.lm_head.register_forward_hook(lambda *_: None)
    assert not can_choose_logits(model)
    hook.remove()
    assert can_choose_logits(model)
    model.lm_head = Quantised(32, 128)
    assert not can_choose_logits(model)
