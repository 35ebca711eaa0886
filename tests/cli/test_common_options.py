"""Options that mean the same in every command, one JSON document, exit codes."""

import json
import os
import shlex
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Annotated

import numpy as np
import pandas as pd
import pytest
import typer
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli import common_options as grammar
from attangent.cli.commands import EXAMPLES, TERMINATED, app
from attangent.cli.compression import GOAL_NOT_MET

RUNNER = CliRunner()
FLAGS = {"--json"}
COMMON = {"--seed", "--jobs", "--out", "--quiet", *FLAGS}


def commands() -> dict:
    """Every command by the words that call it, those of a group (`data list`) too."""
    found = {}
    for name, command in typer.main.get_command(app).commands.items():  # pyright: ignore
        below = getattr(command, "commands", None)
        found |= {f"{name} {inner}": one for inner, one in below.items()} if below else {name: command}
    return found


def options(command) -> dict:
    return {flag: option for option in command.params for flag in option.opts}


@pytest.mark.parametrize("name", commands())
def test_every_command_speaks_the_grammar(name):
    found = options(commands()[name])
    assert set(found) >= FLAGS
    assert found["--json"].help == "Print one JSON document and nothing else."
    if "--quiet" in found:
        assert found["--quiet"].help == "Hide progress bars, notes and hints, not warnings."
    shared = [found[flag] for flag in COMMON & set(found)]
    unseen = {f"--{one}" for one in grammar.HIDDEN.get(name, ())}
    assert {option.opts[0] for option in shared if option.hidden} == unseen
    assert {option.rich_help_panel for option in shared if not option.required} == {grammar.PANEL}
    assert {option.rich_help_panel for option in shared if option.required} <= {None}
    assert all(option.help for option in found.values() if not option.hidden)


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_command_parses(name):
    program, called, *words = shlex.split(EXAMPLES[name])
    assert (program, called) == ("attangent", name)
    commands()[name].make_context(name, words)


@pytest.mark.parametrize("name", commands())
def test_help_fits_a_screen_and_shows_no_python_types(name):
    shown = RUNNER.invoke(app, [*name.split(), "--help"], env={"COLUMNS": "100"}).output
    assert len(shown.splitlines()) <= 60
    assert "<" not in shown
    assert EXAMPLES.get(name, "") in " ".join(shown.split())


def test_help_lists_the_choices_of_options_and_arguments():
    assert "zero, interpolate" in RUNNER.invoke(app, ["forecast", "--help"], env={"COLUMNS": "200"}).output
    assert "compress, tune, forecast" in RUNNER.invoke(app, ["demo", "--help"], env={"COLUMNS": "200"}).output


def test_old_flags_still_work_and_are_not_shown():
    for name, aliases in grammar.ALIASES.items():
        found = options(commands()[name])
        for old, new in aliases.items():
            assert found[f"--{old.replace('_', '-')}"].hidden
            assert f"--{new}" in found


def test_there_are_few_commands_and_options():
    shown = [one for one in commands().values() if not one.hidden]
    assert len(shown) <= 17
    options = [option for one in shown for option in one.params if option.opts[0][0] == "-"]
    assert sum(not option.hidden for option in options) <= 150


def test_a_deprecated_command_works_and_says_so():
    done = RUNNER.invoke(app, ["data", "add", "no such folder"])
    assert "deprecated" in done.stderr
    assert "no such folder" in str(done.exception)


def made(command, **added) -> typer.Typer:
    small = typer.Typer(pretty_exceptions_enable=False)
    small.command()(grammar.spoken(command, **added))
    return small


def test_an_alias_gives_its_value_to_the_new_name():
    def audit(seed: grammar.Seed = 0) -> None:
        typer.echo(seed)

    assert RUNNER.invoke(made(audit), ["--first-seed", "7"]).output == "7\n"
    assert RUNNER.invoke(made(audit), ["--seed", "8"]).output == "8\n"


def talk(fail: Annotated[bool, typer.Option("--fail")] = False) -> None:
    typer.echo(os.environ.get("OMP_NUM_THREADS"))
    if fail:
        raise AttangentError("no")


def test_out_holds_what_is_printed_and_nothing_after_a_failure(tmp_path):
    out = tmp_path / "said.txt"
    with_both = made(talk, threads=True, answers=True)
    assert RUNNER.invoke(with_both, ["--out", str(out), "--jobs", "3"]).output == ""
    assert out.read_text() == "3\n"
    out.unlink()
    assert RUNNER.invoke(made(talk, answers=True), ["--fail", "--out", str(out)]).exit_code == 1
    assert not out.exists()
    failed = RUNNER.invoke(made(talk, answers=True), ["--out", str(tmp_path)])
    assert "it is a folder" in str(failed.exception)


def test_jobs_are_at_least_one_and_leave_no_trace(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    assert RUNNER.invoke(made(talk, threads=True), ["--jobs", "2"]).output == "2\n"
    assert os.environ["OMP_NUM_THREADS"] == "1"
    assert isinstance(RUNNER.invoke(made(talk, threads=True), ["--jobs", "0"]).exception, AttangentError)


def test_an_interrupted_command_ends_with_130():
    def wait() -> None:
        raise KeyboardInterrupt

    done = RUNNER.invoke(made(wait), [])
    assert done.exit_code == grammar.INTERRUPTED
    assert "stopped" in done.output


@pytest.fixture(scope="module")
def series(tmp_path_factory):
    place = tmp_path_factory.mktemp("series")
    months = pd.date_range("2020-01-01", periods=40, freq="MS")
    wave = 10 + np.sin(2 * np.pi * np.arange(40) / 12)
    parts = [pd.DataFrame({"unique_id": name, "ds": months, "y": wave * k}) for k, name in enumerate("ab", 1)]
    pd.concat(parts).to_csv(place / "long.csv", index=False)
    pd.DataFrame({"date": months, "y": wave}).to_csv(place / "one.csv", index=False)
    steps = np.arange(60)
    pd.DataFrame({"step": steps, "a": 1 + 1 / (1 + np.exp((steps - 30) / 3))}).to_csv(
        place / "m.csv", index=False
    )
    return place


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (["doctor"], None),
        (["forecast", "long.csv", "--horizon", "2"], "values"),
        (["forecast", "one.csv", "--horizon", "2", "--out", "f.csv"], "targets"),
        (["evaluate", "long.csv", "--horizon", "2"], "models"),
        (["stages", "m.csv"], "stages"),
    ],
    ids=lambda words: words[0] if isinstance(words, list) else None,
)
def test_json_is_one_document(series, monkeypatch, words, key):
    monkeypatch.chdir(series)
    done = RUNNER.invoke(app, [*words, "--json"])
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    assert key is None or found[key]


def test_a_forecast_without_out_is_printed(series, monkeypatch):
    monkeypatch.chdir(series)
    done = RUNNER.invoke(app, ["forecast", "one.csv", "--horizon", "2"])
    assert "2023-05-01" in done.stdout


def test_commands_keep_within_the_cores_of_a_container(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 3)
    monkeypatch.delitem(sys.modules, "torch")  # as in a command that has not imported it yet
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    assert RUNNER.invoke(made(talk), []).output == "3\n"
    assert "OMP_NUM_THREADS" not in os.environ
    monkeypatch.setenv("OMP_NUM_THREADS", "7")  # what the user has set is the user's
    assert RUNNER.invoke(made(talk), []).output == "7\n"


def test_the_page_names_every_command_and_exit_code():
    page = (Path(__file__).parents[2] / "docs/cli.md").read_text()
    for name in commands():
        words = name.split()
        assert f"attangent {words[0]}" in page
        assert f"`{words[-1]}`" in page or f"attangent {name}`" in page
    for code in (0, 1, 2, GOAL_NOT_MET, grammar.INTERRUPTED, TERMINATED):
        assert f"\n| {code} |" in page
    assert {"--first-seed"} == {
        f"--{old.replace('_', '-')}" for aliases in grammar.ALIASES.values() for old in aliases
    }


def test_nothing_is_written_over_what_is_read(series, tmp_path, monkeypatch):
    monkeypatch.chdir(series)
    before = Path("long.csv").read_bytes()
    link = tmp_path / "link.csv"
    link.symlink_to(series / "long.csv")
    for flag, place in (("--out", "./long.csv"), ("--plot", "long.csv"), ("--out", str(link))):
        done = RUNNER.invoke(app, ["forecast", "long.csv", "--horizon", "2", flag, place])
        assert isinstance(done.exception, AttangentError)
        assert f"{flag} is " in str(done.exception)
        assert "is also an input" in str(done.exception)
    assert Path("long.csv").read_bytes() == before


def test_no_adapter_is_put_into_the_folder_of_its_model(tmp_path):
    model, prompt = tmp_path / "model", tmp_path / "prompt.txt"
    model.mkdir()
    prompt.write_text("x")
    words = ["compress", "--model", str(model), "--prompt", str(prompt), "--out", f"{tmp_path}/model/"]
    assert "is also an input" in str(RUNNER.invoke(app, words).exception)
    assert list(model.iterdir()) == []


@pytest.mark.parametrize("silent", [False, True])
def test_quiet_hides_bars_and_warnings_of_transformers(silent):
    from transformers.utils import logging

    seen = []

    def load(quiet: grammar.Quiet = False) -> None:
        with warnings.catch_warnings(record=True) as caught:
            warnings.warn_explicit("old", FutureWarning, "a.py", 1, "transformers.trainer")
            warnings.warn_explicit("ours", UserWarning, "b.py", 1, "attangent.adapters.attaching")
        seen.extend([logging.get_verbosity(), logging.is_progress_bar_enabled(), len(caught)])

    before = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_warning()
    logging.enable_progress_bar()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("always")
            grammar.spoken(load)(quiet=silent)
        assert seen == ([logging.ERROR, False, 1] if silent else [logging.WARNING, True, 2])
        assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == (logging.WARNING, True)
    finally:
        logging.set_verbosity(before[0])
        if not before[1]:
            logging.disable_progress_bar()


def test_quiet_reaches_transformers_if_it_is_loaded_later():
    code = (
        "from attangent.cli import common_options as c\n"
        "with c._silent_libraries(True):\n"
        "    from transformers.utils import logging\n"
        "    print(logging.get_verbosity() == logging.ERROR, logging.is_progress_bar_enabled())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.split() == ["True", "False"], done.stderr
