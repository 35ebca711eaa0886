"""The command plan, as a user types it, and tune that follows it."""

import json

import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli.commands import app
from tests.adapters.tiny import save_bert, write_rows

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(made / "train.jsonl", 24)
    write_rows(made / "eval.jsonl", 12, seed=1)
    return made


def run(*arguments):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


def files(folder):
    return ("--model", folder, "--train", folder / "train.jsonl", "--eval", folder / "eval.jsonl")


def test_plan_tune_and_check(folder, tmp_path):
    options = ("--methods", "head,ntk", "--rates", "1e-3,1e-2", "--epochs", 1, "--batch", 8)
    done = run("plan", *files(folder), *options, "--out", tmp_path / "plan")
    assert done.exit_code == 0, done.output
    assert "<- take" in done.output
    assert "with 90 %" in done.output
    assert (tmp_path / "plan/plan.png").is_file()
    written = json.loads((tmp_path / "plan/plan.json").read_text())
    made = [run for run in written["runs"] if run["made"] is not None]
    assert [run["method"] for run in made] == ["ntk"]  # that of the head is foretold exactly
    chosen = written["runs"][written["chosen"]]
    tuned = run("tune", "--plan", tmp_path / "plan/plan.json", "--out", tmp_path / "run")
    assert tuned.exit_code == 0, tuned.output
    assert ("made while planning" in tuned.output) == (chosen["made"] is not None)
    metrics = json.loads((tmp_path / "run/seed-0/metrics.json").read_text())
    assert metrics["method"] == chosen["method"]
    assert metrics["learning_rate"] == chosen["learning_rate"]
    assert metrics["steps"] == chosen["steps"]
    checked = run("plan", "--check", tmp_path / "run")
    assert checked.exit_code == 0, checked.output
    assert "training loss" in checked.output
    assert "the interval" in checked.output
    said = run("plan", "--check", tmp_path / "run", "--json")
    assert {figure["name"] for figure in json.loads(said.stdout)[0]["figures"]} >= {"accuracy", "seconds"}


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("plan",), "give --model and --train"),
        (("plan", "--model", "M", "--train", "no.jsonl"), "there is no no.jsonl"),
        (("plan", "--check", "nowhere"), "plan.json"),
        (("tune", "--out", "o"), "give --model and --train, or --plan"),
        (("tune", "--out", "o", "--plan", "none.json"), "there is no file none.json"),
        (("tune", "--out", "o", "--plan", "p.json", "--model", "M"), "leave --model out"),
    ],
)
def test_what_is_missing_is_said(tmp_path, monkeypatch, arguments, words):
    monkeypatch.chdir(tmp_path)
    done = run(*arguments)
    assert isinstance(done.exception, AttangentError)
    assert words in str(done.exception)


def test_rates_that_are_none(folder, tmp_path):
    done = run("plan", *files(folder), "--rates", "fast", "--out", tmp_path)
    assert "expected auto or numbers" in str(done.exception)


def test_a_run_made_while_planning_is_not_made_again(folder, tmp_path):
    options = ("--methods", "ntk,lora", "--rates", "1e-3", "--epochs", 1, "--batch", 8, "--trials", 1)
    assert run("plan", *files(folder), *options, "--out", tmp_path / "plan").exit_code == 0
    tuned = run("tune", "--plan", tmp_path / "plan", "--out", tmp_path / "run")
    assert "made while planning" in tuned.output
    assert json.loads((tmp_path / "run/seed-0/metrics.json").read_text())["method"] == "ntk"
