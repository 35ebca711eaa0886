"""Plans made, followed and checked; what cannot be planned."""

import json
from dataclasses import replace

import pytest
import torch

from attangent import AttangentError
from attangent.tuning.finetune import finetune
from attangent.tuning.methods import Method
from attangent.tuning.planning import Care, plan_tuning, read_plan
from attangent.tuning.planning.checking import check_runs
from attangent.tuning.planning.making import refuse_batch_norm
from attangent.tuning.planning.plan import tuning_of
from attangent.tuning.recipe import Recipe
from attangent.tuning.request import Tuning
from attangent.tuning.training import Training
from tests.adapters.tiny import save_bert, write_rows

SWIFT = Care(orders=2)


def tuning(folder, **own):
    start = Recipe("cross-validated")  # little is left to learn, so that the order of rows hardly counts
    given = {"training": Training(epochs=2, batch=8), "recipe": start, **own}
    return Tuning(str(folder), folder / "train.jsonl", folder / "eval.jsonl", **given)


@pytest.fixture(scope="module")
def plan(bert):
    return plan_tuning(tuning(bert), ["head", "ntk"], [1e-3, 1e-1], SWIFT)


def test_a_plan_looks_at_every_method_and_rate(plan):
    looked = {(run.method, run.learning_rate) for run in plan.runs if run.epochs == 2}
    assert looked == {(method, rate) for method in ("head", "ntk") for rate in (1e-3, 1e-1)}
    assert plan.choice.method == "head"  # the first, and no interval lies above its own
    for run in plan.runs:
        assert run.low <= run.score <= run.high
        assert run.steps == 4 * run.epochs
        assert run.seconds > 0
    assert all(run.loss_sure for run in plan.runs if run.method == "head")


def test_a_plan_is_followed_and_comes_true(plan, tmp_path):
    plan.write(tmp_path / "plan.json")
    again = read_plan(tmp_path / "plan.json")
    assert again == plan
    followed = replace(again, chosen=[run.method for run in again.runs].index("head"))
    finetune(tuning_of(followed), tmp_path / "run")
    (checked,) = check_runs(again, tmp_path / "run")
    off = {figure.name: figure.off for figure in checked.figures}
    assert abs(off["training loss"]) < 0.01
    assert abs(off["loss on held-out rows"]) < 0.01
    assert checked.inside


def test_the_run_that_tune_would_make_is_marked(bert):
    given = tuning(bert, training=Training(epochs=1, batch=8))
    found = plan_tuning(given, ["head"], care=replace(SWIFT, orders=1))
    (usual,) = [run for run in found.runs if run.default]
    assert usual.learning_rate == 0.25 * Method("head").rate  # a classifier that is cross-validated is sure
    assert usual.epochs == 1


def test_the_picture_is_written(plan, tmp_path):
    plan.plot(tmp_path / "plan.png")
    assert (tmp_path / "plan.png").read_bytes()[:4] == b"\x89PNG"


def test_numbers_are_planned_too(bert, tmp_path):
    rows = [json.loads(line) for line in (bert / "train.jsonl").read_text().splitlines()]
    lines = [json.dumps({**row, "label": float(len(row["text"]))}) for row in rows]
    (tmp_path / "values.jsonl").write_text("\n".join(lines))
    given = Tuning(str(bert), tmp_path / "values.jsonl", task="regression", training=Training(epochs=2))
    found = plan_tuning(given, ["head"], [1e-2], SWIFT)
    assert found.measure == "r2"
    finetune(tuning_of(found), tmp_path / "run")
    (checked,) = check_runs(found, tmp_path / "run")
    off = {figure.name: figure.off for figure in checked.figures}
    assert abs(off["training loss"]) < 0.01
    assert abs(off["r2"]) < 0.01


def test_dropout_is_drawn_for_the_training_loss(plan, tmp_path):
    folder = save_bert(tmp_path, hidden_dropout_prob=0.3)
    write_rows(folder / "train.jsonl", 28)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    found = plan_tuning(tuning(folder), ["head"], [1e-3], replace(SWIFT, draws=4))
    found = replace(found, chosen=len(found.runs) - 1)
    finetune(tuning_of(found), tmp_path / "run")
    (checked,) = check_runs(found, tmp_path / "run")
    real = next(figure.real for figure in checked.figures if figure.name == "training loss")
    without = plan.run_like("head", 1e-3, 2)
    assert without is not None
    assert real > 3 * without.train_loss
    assert found.choice.train_loss == pytest.approx(real, rel=0.5)


@pytest.mark.parametrize(
    ("methods", "rates", "own", "words"),
    [
        (["probe"], None, {}, "no run of its own"),
        (["auto"], None, {}, "no run of its own"),
        ([], None, {}, "no method is named"),
        (["nope"], None, {}, "method is 'nope'"),
        (["head"], [], {}, "no rate is given"),
        (["head"], [0.0], {}, "a rate"),
        (["head"], [float("nan")], {}, "a rate"),
        (["head"], None, {"task": "causal-lm"}, "causal-lm cannot be planned"),
        (["head"], None, {"quantised": "int8", "method": Method("ntk")}, "quantised is int8"),
        (["head"], None, {"training": Training(bf16=True)}, "bf16 is True"),
        (["head"], None, {"recipe": Recipe(search=True)}, "search and validation"),
    ],
)
def test_what_cannot_be_planned_is_refused(bert, methods, rates, own, words):
    with pytest.raises(AttangentError, match=words):
        plan_tuning(tuning(bert, **own), methods, rates)


def test_batch_norm_is_refused_with_its_place():
    refuse_batch_norm(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.LayerNorm(2)))
    with pytest.raises(AttangentError, match=r"1 layers of batch norm \(the first is 1\).*--search"):
        refuse_batch_norm(torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.BatchNorm1d(2)))


def test_a_tangent_that_does_not_fit_is_refused_with_the_number(bert):
    with pytest.raises(
        AttangentError, match=r"28 rows .* would take .* but memory_limit is 9.77 KiB.*fewer rows"
    ):
        plan_tuning(tuning(bert), ["ntk"], memory_limit=10_000)


def test_a_run_of_other_settings_is_not_compared(plan, tmp_path):
    folder = save_bert(tmp_path / "model")
    write_rows(folder / "train.jsonl", 28)
    with pytest.raises(AttangentError, match="no finished run"):
        check_runs(plan, tmp_path)
    finetune(Tuning(str(folder), folder / "train.jsonl", method=Method("head")), tmp_path / "run")
    with pytest.raises(AttangentError, match="has not looked at"):
        check_runs(plan, tmp_path / "run")


def test_files_that_changed_since_the_plan(plan, bert, tmp_path):
    folder = save_bert(tmp_path)
    write_rows(folder / "train.jsonl", 28)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    own = plan_tuning(tuning(folder), ["head"], [1e-3], SWIFT)
    write_rows(folder / "train.jsonl", 28, seed=9)
    with pytest.raises(AttangentError, match="has changed since the plan"):
        tuning_of(own)
    (tmp_path / "plan.json").write_text("{}")
    with pytest.raises(AttangentError, match="attangent plan 1"):
        read_plan(tmp_path)


def _promising(plan, score):
    return replace(plan, runs=(replace(plan.choice, made=score),), chosen=0)


def test_the_advice_says_what_few_rows_are_worth_and_when_training_harms(plan):
    assert plan.scored == 16
    assert "16 rows only" in plan.advice
    many = replace(plan, scored=300, start=0.0)
    assert "rows only" not in many.advice
    assert "probe" not in many.advice
    assert "probe" in replace(many, start=1.1).advice
    assert "points higher or lower" in _promising(plan, 0.5).advice
    assert "points lower" in _promising(plan, 1.0).advice


def test_the_advice_says_what_tune_would_do_without_a_plan(plan):
    assert "without a plan" not in plan.advice  # the default rate is not among those asked for
    first, other = plan.runs[0], plan.runs[1]
    usual = replace(first, default=True, score=0.61)
    taken = replace(plan, runs=(usual, replace(other, made=0.72)), chosen=1)
    assert "accuracy 0.720 when it was made" in taken.advice
    assert (
        f"tune --method head without a plan takes rate {usual.learning_rate:g}: accuracy 0.610"
        in taken.advice
    )
    assert "makes the same run" in replace(taken, chosen=0).advice


def test_losses_are_marked_where_features_are_followed_in_part(bert, tmp_path, monkeypatch):
    rows = [json.loads(line) for line in (bert / "train.jsonl").read_text().splitlines()]
    lines = [json.dumps({**row, "label": "abc"[i % 3]}) for i, row in enumerate(rows)]
    (tmp_path / "three.jsonl").write_text("\n".join(lines))
    monkeypatch.setattr("attangent.tuning.planning.standing_in.MOST_DIRECTIONS", 1)
    given = Tuning(str(bert), tmp_path / "three.jsonl", training=Training(epochs=1, batch=8))
    found = plan_tuning(given, ["ntk", "head"], [1e-4], replace(SWIFT, orders=1))
    assert not any(run.loss_sure for run in found.runs if run.method == "ntk")
    assert all(run.loss_sure for run in found.runs if run.method == "head")
