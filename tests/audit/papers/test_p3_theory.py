"""The theory claims of P3: what they find, and that each can find the opposite."""

import dataclasses
import math

import pytest
import torch

from attangent.audit import Verdict, registry
from attangent.audit.papers.p3 import elementary, hard_part, identities, patterns, schedules, stage_runs
from attangent.audit.papers.p3.two_stage_setting import STAGES, Assumption1, exponent, two_stages
from attangent.stages import ReluAttention
from attangent.stages.theory.floor import QLossBounds

FOUND = {
    "P3/linear-decomposition": "holds",
    "P3/proposition-1": "holds",
    "P3/proposition-2": "violated",
    "P3/proposition-3": "violated",
    "P3/proposition-4": "holds",
    "P3/proposition-5": "holds",
    "P3/proposition-6": "violated",
    "P3/lemma-6": "violated",
    "P3/theorem-1": "violated",
    "P3/theorem-2": "violated",
    "P3/theorem-3": "violated",
    "P3/theorem-4": "violated",
    "P3/corollary-1": "violated",
    "P3/two-stages": "measured",
}

SMALLER = {
    "P3/proposition-6": {"lengths": [33, 129, 513], "draws": 100},
    "P3/theorem-2": {"dimensions": [8, 16], "runs": 3},
    "P3/theorem-3": {"second_steps": 20, "lengths": [33], "starts": 4, "search_steps": 60},
    "P3/corollary-1": {"second_steps": 20},
    "P3/two-stages": {"second_steps": 900, "second_rate": 8.0, "runs": 5},
}
"""Settings that show the same in less time."""


def check(id, seed=0, **changes):
    claim = registry.get(id)
    return claim.check(claim.quick | SMALLER.get(id, {}) | changes, seed)


def line(finding, start):
    return next(line for line in finding.conclusions if line.name.startswith(start))


def ours(finding):
    return [line for line in finding.conclusions if not line.claimed]


@pytest.mark.parametrize(("id", "verdict"), FOUND.items(), ids=FOUND)
def test_what_the_audit_finds(id, verdict):
    assert check(id, seed=1).verdict == verdict


BROKEN_HYPOTHESES = {
    "P3/linear-decomposition": {"off_diagonal": 0.5},
    "P3/proposition-1": {"second_rate": 1.0},
    "P3/proposition-4": {"gradient_factor": 0.1},
    "P3/proposition-5": {"noise_factor": 1.5},
    "P3/two-stages": {"second_steps": 5},
}


@pytest.mark.parametrize(("id", "changes"), BROKEN_HYPOTHESES.items(), ids=BROKEN_HYPOTHESES)
def test_violated_where_a_hypothesis_is_broken(id, changes):
    assert check(id, **changes).verdict is Verdict.VIOLATED


NOT_VIOLATED = {
    "P3/proposition-2": {"p": 1.0},
    "P3/proposition-3": {"frame": "random"},
    "P3/proposition-6": {"labels": "independent"},
    "P3/lemma-6": {"signal": 1e-9},
    "P3/theorem-1": {"r": 1e-3},
    "P3/theorem-4": {"decay_times": 0.0},
}


@pytest.mark.parametrize(("id", "changes"), NOT_VIOLATED.items(), ids=NOT_VIOLATED)
def test_not_violated_where_the_flaw_cannot_show(id, changes):
    assert check(id, **changes).verdict is not Verdict.VIOLATED


@pytest.mark.parametrize("id", ["P3/proposition-2", "P3/proposition-6", "P3/theorem-1", "P3/theorem-3"])
def test_the_corrected_form_holds(id):
    assert all(line.kept for line in ours(check(id)))


def test_a_wrong_gradient_is_found_out(monkeypatch):
    right = ReluAttention.gradient

    def wrong(self, prompts):
        return right(self, prompts).map(lambda part: part * (1 + 1e-9))

    monkeypatch.setattr(ReluAttention, "gradient", wrong)
    assert not any(line.kept for line in ours(check("P3/proposition-2")))


def test_the_printed_gradient_is_compared_as_printed(monkeypatch):
    monkeypatch.setattr(identities, "printed_gradient", ReluAttention.gradient)
    assert check("P3/proposition-2").verdict is Verdict.HOLDS


def test_the_split_is_found_out_where_signal_takes_noise(monkeypatch):
    right = identities.train

    def leaking(*given, **named):
        course = right(*given, **named)
        end = course.ends[-1]
        leaked = dataclasses.replace(end, signal=end.signal.plus(end.noise, 1e-6))
        return dataclasses.replace(course, ends=(*course.ends[:-1], leaked))

    monkeypatch.setattr(identities, "train", leaking)
    assert check("P3/proposition-1").verdict is Verdict.VIOLATED


def test_signs_that_follow_the_noise_would_be_believed(monkeypatch):
    monkeypatch.setattr(patterns, "_flips_by_turning", lambda part, noise, norm: torch.tensor(part.L**0.6))
    assert check("P3/lemma-6").verdict is Verdict.HOLDS


def test_easy_weights_of_the_asked_order_would_be_believed(monkeypatch):
    def as_asked(settings, d, seed):
        asked = Assumption1.of(settings, d).d * 2.0
        return elementary._EasyStage(3 * asked, asked, 4 * asked, 0.1, 0.2)

    monkeypatch.setattr(elementary, "_easy_stage_one", as_asked)
    finding = check("P3/theorem-2")
    assert finding.verdict is Verdict.HOLDS
    assert all(line.kept for line in ours(finding))


def test_the_clash_of_theorem_2_with_proposition_4():
    clash = line(check("P3/theorem-2"), "K/lambda of Proposition 4")
    assert clash.measured < 0.1 * clash.bound


def test_hard_part_learned_below_the_bound_is_found_out(monkeypatch):
    """(a.2) fails where V is handed over already trained."""
    right = elementary._hard_stage_one

    def learned(settings, scale, N, seed):
        end = right(settings, scale, N, seed)
        return dataclasses.replace(end, losses=end.losses._replace(K2=0.05 * torch.ones_like(end.losses.K2)))

    monkeypatch.setattr(elementary, "_hard_stage_one", learned)
    finding = check("P3/theorem-1", r=1e-3)
    assert finding.verdict is Verdict.VIOLATED
    assert not line(finding, "(a.2)").kept


def test_unbalanced_prompts_make_the_hard_part_learnable(monkeypatch):
    monkeypatch.setattr(hard_part, "two_stages", _run_with_norms(1.0, 9.0))
    changes = {"lengths": [1025], "search_steps": 150, "starts": 8}
    assert check("P3/theorem-3", p=0.6, **changes).verdict is Verdict.HOLDS
    assert check("P3/theorem-3", p=0.5, **changes).verdict is Verdict.VIOLATED


def test_a_floor_set_too_high_is_found_out(monkeypatch):
    monkeypatch.setattr(hard_part, "q_loss_bounds", lambda p, L: QLossBounds(0.4, 0.5))
    assert not line(check("P3/theorem-3", search_steps=150), "least (K2 - floor)").kept


def test_weights_that_do_not_grow_violate_c1(monkeypatch):
    monkeypatch.setattr(hard_part, "two_stages", _run_with_norms(9.0, 1.0))
    assert not line(check("P3/theorem-3"), "(c.1)").kept


def test_easy_weights_move_where_the_second_stage_is_long():
    finding = check("P3/theorem-4", decay_times=2.0)
    assert line(finding, "(d.1)").measured > 10
    assert line(finding, "move of the signal").measured > 0.2


def test_traces_as_printed_would_be_believed(monkeypatch):
    def as_printed(settings, seed):
        course, model = _short_run(settings, seed)
        t1 = course.at(course.ends[0].step)
        W, V = torch.ones_like(course.trace_W), torch.ones_like(course.trace_V)
        W[t1:], V[t1:] = 1e4, 1e3
        V[-1] = 1e6
        return dataclasses.replace(course, trace_W=W, trace_V=V), model

    printed = iter((4.0, 3.0))  # log10 of the growth of Tr W, then of Tr V
    monkeypatch.setattr(stage_runs, "two_stages", as_printed)
    monkeypatch.setattr(
        stage_runs, "_printed_log10_growth", lambda *given: torch.tensor(next(printed), dtype=torch.float64)
    )
    assert check("P3/corollary-1").verdict is Verdict.HOLDS


def test_how_many_runs_hold_is_said():
    finding = check("P3/two-stages", runs=5, second_steps=5)
    assert line(finding, "runs of 5 in which K1 is learned at t_1").measured == 5
    assert line(finding, "runs of 5 in which K2 falls").measured == 0


@pytest.mark.parametrize(("gap", "verdict"), [(0.2, "holds"), (-0.2, "violated")])
def test_constant_rate_counts_runs(monkeypatch, gap, verdict):
    def made_up(settings, seed, stages=None):
        return _with_losses(settings, seed, K1=0.1, K2=0.4 if stages is None else 0.4 + gap)

    monkeypatch.setattr(schedules, "two_stages", made_up)
    assert check("P3/ablation-constant-rate").verdict == verdict


@pytest.mark.parametrize(("K2", "verdict"), [(0.5, "holds"), (0.69, "violated")])
def test_small_rate_counts_runs(monkeypatch, K2, verdict):
    def made_up(settings, seed, stages=None):
        return _with_losses(settings, seed, K1=0.1, K2=0.69 if stages is None else K2)

    monkeypatch.setattr(schedules, "two_stages", made_up)
    assert check("P3/ablation-small-rate").verdict == verdict


@pytest.mark.parametrize("id", ["P3/ablation-constant-rate", "P3/ablation-small-rate"])
def test_ablations_run(id):
    finding = check(id, runs=2, second_steps=20)
    assert all(math.isfinite(value) for value in finding.numbers.values())
    assert len(finding.figures[0].series) == 4


def test_the_exponent_of_a_power_law():
    sizes = [8, 32, 128]
    assert exponent(sizes, [3 * size**-1.5 for size in sizes]) == pytest.approx(-1.5)
    assert exponent(sizes, [0.0, 0.0, 0.0]) == 0.0


def test_the_stage_setting_lasts_one_decay_time():
    assert STAGES["first_steps"] * STAGES["first_rate"] * STAGES["weight_decay"] == pytest.approx(1.0)


def _short_run(settings, seed):
    return two_stages(settings | {"first_steps": 2, "second_steps": 2, "N": 4}, seed)


def _with_losses(settings, seed, K1, K2):
    """A course whose losses are these throughout."""
    course, model = _short_run(settings, seed)
    ones = torch.ones_like(course.losses.K)
    return dataclasses.replace(course, losses=course.losses._replace(K1=K1 * ones, K2=K2 * ones)), model


def _run_with_norms(first, last):
    """Runs in which |signal of V| is `first` after the first stage and `last` at the end."""

    def run(settings, seed):
        course, model = _short_run(settings, seed)
        norms, end = course.norm_V.clone(), course.ends[0]
        norms[-1] = last
        V = torch.zeros_like(end.signal.V)
        V[..., 0, 0, 0] = first
        ends = (dataclasses.replace(end, signal=end.signal._replace(V=V)), *course.ends[1:])
        return dataclasses.replace(course, norm_V=norms, ends=ends), model

    return run
