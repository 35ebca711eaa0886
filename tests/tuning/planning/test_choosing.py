"""The run to take: tune's own unless another is clearly better; made ones decide between methods."""

from dataclasses import replace

from attangent.tuning.planning.choosing import best_run, own_choices, to_make
from tests.tuning.planning.runs import planned

USUAL = planned(score=0.70, default=True)


def test_the_default_is_left_for_a_clear_gain_only():
    near, clear = planned(rate=1e-2, score=0.713), planned(rate=1e-1, score=0.717)
    assert own_choices([near, USUAL]) == [1]
    assert own_choices([near, USUAL, clear]) == [2]
    assert own_choices([clear, replace(USUAL, departure=0.9)]) == [1]
    assert own_choices([replace(clear, score=0.731), replace(USUAL, departure=0.9)]) == [0]


def test_of_equal_runs_the_one_closest_to_its_tangent_is_taken():
    far, near = planned(score=0.8, departure=0.9), planned(score=0.8, departure=0.4)
    assert own_choices([far, near, USUAL]) == [1]


def test_without_a_default_the_lower_end_decides():
    wild, calm = planned(score=0.72, half=0.07), planned(score=0.70, half=0.02)
    assert own_choices([wild, calm]) == [1]


def test_methods_are_told_apart_by_intervals_that_do_not_meet():
    close, above = planned("lora", score=0.73, default=True), planned("lora", score=0.75, default=True)
    assert best_run([USUAL, close]) == 0
    assert best_run([USUAL, above]) == 1


def test_runs_that_were_made_decide_together_with_exact_ones():
    ntk, lora = replace(USUAL, made=0.71), planned("lora", score=0.6, default=True, made=0.74)
    head = planned("head", score=0.73, default=True, departure=0.0)
    assert best_run([ntk, lora, head]) == 1
    assert best_run([ntk, replace(lora, made=0.72), head]) == 2
    assert best_run([ntk, replace(lora, made=None), replace(head, score=0.6)]) == 0


def test_one_run_is_made_for_each_method_that_is_not_exact():
    lora, head = planned("lora", default=True), planned("head", default=True, departure=0.0)
    runs = [planned(score=0.5), USUAL, lora, head]
    assert to_make(runs, 2) == [1, 2]
    assert to_make(runs, 1) == [1]
    assert to_make(runs, 0) == []
    assert to_make([USUAL], 2) == []
