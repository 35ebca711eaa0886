"""Every option of every command has an effect or is refused: a table that a new option has to enter.

An option is in `SHOWN_BY` with the test that shows its effect, or in a table of cheap calls here.
"""

import ast
import json
import re
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli import common_options
from attangent.cli.commands import app
from attangent.tuning import TuningRequest
from tests.adapters.tiny import save_bert, save_llama, write_images, write_rows
from tests.cli.test_common_options import commands

RUNNER = CliRunner()
ROOT = Path(__file__).parents[2]
CLI = "tests/cli"
PASSED_ON = f"{CLI}/test_options_passed_on.py"

SHOWN_BY = {
    "audit": {
        "--paper --list": f"{CLI}/test_auditing.py::test_list",
        "--first-seed": f"{CLI}/test_auditing.py::test_a_page_beside_another_run",
        "--json --out": f"{CLI}/test_auditing.py::test_json_is_for_machines",
        "--quiet": f"{CLI}/test_auditing.py::test_quiet_prints_nothing",
        "--profile --seeds --seed": f"{PASSED_ON}::test_an_audit_takes_its_seeds_and_sizes",
        "--jobs --dask": f"{PASSED_ON}::test_an_audit_takes_its_workers",
        "--force": f"{PASSED_ON}::test_an_existing_finding_is_measured_again_with_force",
    },
    "report": {
        "--against --out": f"{CLI}/test_auditing.py::test_a_page_beside_another_run",
        "--json": f"{CLI}/test_auditing.py::test_a_report_of_another_kind_is_refused",
        "--quiet --figures": f"{PASSED_ON}::test_a_report_is_quiet_and_writes_figures",
    },
    "new-claims": {
        "--out --json": f"{CLI}/test_auditing.py::test_new_claims_writes_a_package_and_its_old_name_warns",
    },
    "tune": {
        "--config --json": f"{CLI}/test_tuning.py::test_tune_says_what_it_found_and_where_it_is",
        "--quiet": f"{CLI}/test_tuning.py::test_the_method_is_said_where_none_is_named",
    },
    "predict": {
        "--adapter --out": f"{CLI}/test_tuning.py::test_predict_answers_rows_and_lines",
        "--batch --model --json --quiet": f"{PASSED_ON}::test_predict_passes_on_its_options",
    },
    "compress": {
        "--model --prompt --out --keep --size --ask": (
            f"{CLI}/test_compression.py::test_compress_writes_an_adapter_and_a_report_and_generate_uses_it"
        ),
        "--json --quiet --method": f"{CLI}/test_compression.py::test_json_and_quiet",
        "--calibration": f"{CLI}/test_compression.py::test_chat_messages_from_json_and_own_calibration",
        "--export": f"{CLI}/test_compression.py::test_an_export_for_peft_is_written_beside_the_adapter",
        "--seconds --distill --seed --plain": f"{PASSED_ON}::test_compress_passes_on_its_options",
    },
    "generate": {
        "--json": f"{CLI}/test_compression.py::test_a_bare_model_generates_and_chats",
        "--adapter": (
            f"{CLI}/test_compression.py::test_compress_writes_an_adapter_and_a_report_and_generate_uses_it"
        ),
    },
    "chat": {
        "--model --tokens --json": f"{CLI}/test_compression.py::test_a_bare_model_generates_and_chats",
        "--adapter --budget": (
            f"{CLI}/test_compression.py::test_a_classifier_does_not_chat_and_a_tuned_model_has_no_budget"
        ),
    },
    "serve": {
        "--model --prefix --adapter": f"{PASSED_ON}::test_a_server_gets_its_models_and_address",
        "--host --port --store": f"{PASSED_ON}::test_a_server_gets_its_models_and_address",
        "--api-key --rows --seconds --json --quiet": f"{PASSED_ON}::test_a_server_gets_its_limits",
    },
    "export": {
        "--to --model --out --name": f"{CLI}/test_serving.py::test_vllm_gets_a_folder_and_the_user_a_command",
        "--server --slots --json": f"{CLI}/test_serving.py::test_llama_cpp_is_filled_and_asked",
    },
    "forecast": {
        "--target --plot": f"{CLI}/test_forecasting.py::test_forecast_writes_a_table_and_a_picture",
        "--id --date --report --out": f"{CLI}/test_forecasting.py::test_many_series_at_once",
        "--hierarchy --reconcile --fitted": (
            f"{CLI}/test_forecasting.py::test_totals_fitted_values_and_rounded_numbers"
        ),
        "--contributions": f"{CLI}/test_forecasting.py::test_contributions_and_their_baseline_add_up",
        "--json": f"{CLI}/test_common_options.py::test_json_is_one_document",
        "--jobs --dask": f"{PASSED_ON}::test_a_forecast_takes_its_workers",
    },
    "evaluate": {
        "--json": f"{CLI}/test_common_options.py::test_json_is_one_document",
        "--out": f"{CLI}/test_forecasting.py::test_unique_id_is_taken_for_the_id_without_being_told",
    },
    "stages": {
        "--plot --json --group": f"{CLI}/test_inspection.py::test_stages_of_a_csv",
    },
    "spectrum": {
        "--layer --target --json --plot": f"{CLI}/test_inspection.py::test_spectrum_of_a_folder",
    },
    "doctor": {
        "--json": f"{CLI}/test_inspection.py::test_doctor_prints_every_fact_and_the_same_as_json",
        "--quiet": f"{PASSED_ON}::test_doctor_names_only_what_is_missing",
    },
    "demo": {
        "--out --json": f"{CLI}/test_demo.py::test_json_is_one_document",
        "--model": f"{CLI}/test_demo.py::test_tune_reads_the_sample_with_the_model_that_is_named",
        "--quiet": f"{PASSED_ON}::test_a_demo_passes_quiet_on",
    },
    "data list": {
        "--check --json --quiet": f"{CLI}/test_data.py::test_a_folder_is_added_checked_and_shown",
    },
    "data add": {"--json --quiet": f"{PASSED_ON}::test_added_folders_are_described_or_not"},
    "data get": {"--mirror --out --json --quiet": f"{PASSED_ON}::test_downloads_come_from_the_mirror"},
}
"""Commands, their options, and the test that shows what they do."""

PAIRS = [
    ("forecast long.csv --horizon 2", "--horizon 3", "2024-02-07"),
    ("forecast long.csv --horizon 2", "--period 5", "period 5"),
    ("forecast long.csv --horizon 2", "--model persistence", "persistence was named"),
    ("forecast long.csv --horizon 2", "--intervals .5", "forecast-lo-50"),
    ("forecast long.csv --horizon 2 --covariate price", "--future ahead.csv", "the covariates"),
    ("forecast long.csv --horizon 2 --future ahead.csv", "--covariate price", "the covariates"),
    ("forecast long.csv --horizon 2", "--holidays DE", "holidays|covariates"),
    ("forecast long.csv --horizon 2 --model ridge", "--category kind", "categor|DIFFERS"),
    ("forecast wide.csv --horizon 2", "--category kind", "--category needs a long table"),
    (
        "forecast long.csv --horizon 2 --model theta",
        "--category kind",
        "category has no effect on the model theta",
    ),
    ("forecast gaps.csv --horizon 2", "--gaps zero", "counted as zero"),
    ("forecast long.csv --horizon 2", "--quiet", "SHORTER"),
    ("forecast long.csv --horizon 2", "--drop-short", "SAME"),
    ("evaluate long.csv --horizon 2", "--horizon 0", "horizon|h is 0"),
    ("evaluate long.csv --horizon 2", "--horizon 5", "DIFFERS"),
    ("evaluate long.csv --horizon 2", "--id none", "no column 'none'"),
    ("evaluate long.csv --horizon 2", "--target price", "DIFFERS"),
    ("evaluate long.csv --horizon 2", "--date when", "no column 'when'"),
    ("evaluate long.csv --horizon 2", "--period 5", "DIFFERS"),
    ("evaluate long.csv --horizon 2", "--windows 3", "3 windows"),
    ("evaluate gaps.csv --horizon 2", "--gaps zero", "counted as zero"),
    ("evaluate long.csv --horizon 2", "--quiet", "SHORTER"),
    ("evaluate long.csv --horizon 2", "--drop-short", "SAME"),
    ("stages metrics.csv", "--step other", "step 234"),
    ("stages trainer_state.json", "--step other", "leave it out"),
    ("stages noise.csv", "--false-alarms .5", "falls"),
    ("stages metrics.csv", "--warmup 35", "DIFFERS"),
    ("stages metrics.csv", "--warmup 1000", "leaves no readings"),
    ("stages metrics.csv", "--out said.txt", "said.txt: other"),
    ("spectrum {llama}", "--out said.txt", "said.txt: *layer"),
    ("generate cat --model {llama}", "--tokens 1", "SHORTER"),
    ("generate cat --tokens 3", "--model {llama}", "DIFFERS"),
    ("generate cat --model {llama}", "--temperature 9", "DIFFERS"),
    ("generate cat --model {llama} --temperature 9", "--seed 4", "DIFFERS"),
    ("generate cat --model {llama}", "--seed 4", "--seed has no effect"),
    ("generate cat --model {llama}", "--out said.txt", "said.txt: "),
    ("new-claims Mine", "--quiet", "SHORTER"),
]
"""A call, an option added to it, and a pattern that only the second outcome matches."""

TUNED = {
    "--model": ("{llama}", lambda request: request.model.endswith("llama")),
    "--train": ("other.jsonl", lambda request: request.train == Path("other.jsonl")),
    "--eval": ("other.jsonl", lambda request: request.evaluate == Path("other.jsonl")),
    "--task": ("regression", lambda request: request.kind == "regression"),
    "--method": ("head", lambda request: request.method.name == "head"),
    "--text-column": ("message", lambda request: request.columns.text == ("message",)),
    "--label-column": ("intent", lambda request: request.columns.label == "intent"),
    "--max-tokens": ("7", lambda request: request.max_tokens == 7),
    "--class-weights": (None, lambda request: request.class_weights),
    "--quantised": ("int8", lambda request: request.quantised == "int8"),
    "--learning-rate": (".25", lambda request: request.method.rate == 0.25),
    "--epochs": ("7", lambda request: request.training.epochs == 7),
    "--batch": ("7", lambda request: request.training.batch == 7),
    "--keep-holdout": (None, lambda request: not request.retrains),
    "--seed": ("7", lambda request: request.training.seed == 7),
    "--seeds": ("7", lambda request: request.seeds == 7),
    "--out": ("elsewhere", lambda request: request.out == Path("elsewhere")),
    "--plain": (None, "plain has no effect on classification"),
}
"""Options of tune, a value, and what the request then says; tests/tuning shows what the request does."""


def options_of(command) -> list[str]:
    return [option.opts[0] for option in command.params if option.param_type_name == "option"]


def test_every_option_is_in_a_table():
    shown = {
        (command, flag)
        for command, entries in SHOWN_BY.items()
        for flags in entries
        for flag in flags.split()
    }
    shown |= {(call.split()[0], added.split()[0]) for call, added, _ in PAIRS}
    shown |= {("tune", flag) for flag in TUNED}
    shown |= {(name, "--jobs") for name in WITH_THREADS}
    shown |= {(name, "--quiet") for name in ("generate", "chat", "export")}  # below, with every other one
    listed = {(name, flag) for name, command in commands().items() for flag in options_of(command)}
    assert listed - shown == set(), "a new option: show what it does"
    assert shown - listed == set(), "an option that is gone"


@cache
def functions(path: Path) -> dict[str, str]:
    """The sources of tests with the module's constants, fixtures and helpers that they name."""
    text = path.read_text()
    tree = ast.parse(text)
    parts = {}
    for node in tree.body:
        source = "\n".join(
            ast.get_source_segment(text, one) or "" for one in (node, *getattr(node, "decorator_list", []))
        )
        if isinstance(node, ast.FunctionDef):
            parts[node.name] = source
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            parts[node.targets[0].id] = source
    return {
        name: source + "".join(more for other, more in parts.items() if re.search(rf"\b{other}\b", source))
        for name, source in parts.items()
    }


@pytest.mark.parametrize("command", SHOWN_BY)
def test_the_tests_exist_and_name_the_option(command):
    for flags, node in SHOWN_BY[command].items():
        path, _, name = node.partition("::")
        sources = functions(ROOT / path)
        assert name in sources, f"there is no test {node}"
        for flag in flags.split():
            assert f'"{flag}"' in sources[name], f"{node} does not use {flag}"


@pytest.fixture(scope="module")
def inputs(tmp_path_factory):
    """Tables and models that the calls read."""
    folder = tmp_path_factory.mktemp("inputs")
    days = pd.date_range("2024-01-01", periods=35)
    wave = 10 + np.sin(2 * np.pi * np.arange(35) / 7) + np.random.default_rng(0).normal(size=35)
    about = {"kind": "x", "price": wave[::-1]}
    pd.DataFrame({"date": days, "a": wave, "kind": "x"}).to_csv(folder / "wide.csv", index=False)
    series = [
        pd.DataFrame(
            {"unique_id": name, "ds": days, "y": wave * k + k * np.arange(35) % 5, **about, "kind": k % 2}
        )
        for k, name in enumerate("abc", 1)
    ]
    pd.concat(series).to_csv(folder / "long.csv", index=False)
    pd.concat([one.drop(index=[5, 9]) for one in series]).to_csv(folder / "gaps.csv", index=False)
    ahead = pd.date_range("2024-02-05", periods=2)
    future = [pd.DataFrame({"unique_id": name, "ds": ahead, "price": 1.0}) for name in "abc"]
    pd.concat(future).to_csv(folder / "ahead.csv", index=False)
    steps = np.arange(60)
    loss = 1 + 1 / (1 + np.exp((steps - 30) / 3))
    pd.DataFrame({"step": steps, "other": 10 * steps, "a": loss}).to_csv(folder / "metrics.csv", index=False)
    history = [{"step": int(step), "loss": float(one)} for step, one in zip(steps, loss, strict=True)]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))
    noise = np.random.default_rng(7).normal(1, 0.1, 30) - 0.2 * (np.arange(30) > 15)
    pd.DataFrame({"step": np.arange(30), "a": noise}).to_csv(folder / "noise.csv", index=False)
    write_rows(folder / "rows.jsonl", 12)
    write_rows(folder / "other.jsonl", 12)
    write_images(folder / "images", 2)
    save_bert(folder / "bert")
    save_llama(folder / "llama")
    return folder


def outcome(inputs: Path, folder: Path, words: str) -> str:
    """What a call prints or raises, and the small files that it writes."""
    folder.mkdir()
    names = {path.name: str(path) for path in inputs.iterdir()}
    call = [names.get(word, word).format(**names) for word in words.split()]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        done = RUNNER.invoke(app, call)
    if done.exception and not isinstance(done.exception, AttangentError | SystemExit):
        raise done.exception
    files = [f"{path.relative_to(folder)}: {path.read_text()}" for path in folder.rglob("*.txt")]
    return "\n".join([done.output, str(done.exception or ""), *files])


@pytest.fixture(scope="module")
def run(inputs, tmp_path_factory):
    return cache(lambda words: outcome(inputs, tmp_path_factory.mktemp("run") / "folder", words))


@pytest.mark.parametrize(("call", "added", "expected"), PAIRS, ids=lambda text: text[:40])
def test_an_option_changes_the_outcome_or_is_refused(run, call, added, expected):
    before = run(call)
    after = run(f"{call} {added}")
    if expected == "SAME":
        assert after == before
    elif expected == "SHORTER":
        assert len(after) < len(before)
    elif "DIFFERS" in expected:
        assert after != before
    else:
        assert re.search(expected, after), after
        assert not re.search(expected, before)


@pytest.fixture
def requested(inputs, monkeypatch):
    """Call tune up to its request, which also gets the number of seeds and the folder; rows are not read."""
    import attangent.tuning.pipeline as pipeline
    import attangent.tuning.prepared as prepared

    seen = []

    def record(request, out, seeds, silent):
        seen.append(request)
        vars(request).update(out=out, seeds=seeds)
        return iter(())

    monkeypatch.setattr(pipeline, "tune_seeds", record)
    monkeypatch.setattr(prepared, "check_rows", lambda request: None)
    monkeypatch.chdir(inputs)

    def call(*words):
        done = RUNNER.invoke(app, ["tune", *words, "--json"])
        return seen.pop() if seen else str(done.exception)

    return call


@pytest.mark.parametrize("flag", TUNED)
def test_tune_passes_on_its_options(requested, inputs, flag):
    value, expected = TUNED[flag]
    required = {"--model": "bert", "--train": "rows.jsonl", "--out": "run"}
    words = [word for name, usual in required.items() if name != flag for word in (name, usual)]
    before = None if flag in required else requested(*words)
    words += [flag] if value is None else [flag, value.format(llama=inputs / "llama")]
    request = requested(*words)
    if isinstance(expected, str):
        assert expected in request
    else:
        assert expected(request)
        assert before is None or before.columns is None or not expected(before)


IMAGES = ("--model", "vit", "--train", "images", "--out", "run")
CAUSAL = ("--model", "llama", "--train", "rows.jsonl", "--out", "run", "--task", "causal-lm")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((*IMAGES, "--task", "regression"), "--task has no effect on images"),
        ((*IMAGES, "--text-column", "text"), "--text-column has no effect on images"),
        ((*IMAGES, "--max-tokens", "7"), "--max-tokens has no effect on images"),
        ((*CAUSAL, "--label-column", "label"), "--label-column has no effect on causal-lm"),
        ((*CAUSAL[:6], "--method", "probe", "--epochs", "2"), "--epochs has no effect on the method probe"),
        ((*CAUSAL[:6], "--method", "probe", "--learning-rate", "1"), "learning_rate has no effect"),
    ],
)
def test_tune_refuses_what_it_would_ignore(requested, words, message):
    assert message in requested(*words)


@pytest.mark.parametrize(
    ("words", "settings", "message"),
    [
        (
            (),
            "[method]\nname = 'head'\nrank = 4",
            "rank has no effect on the method head; .*: lora, ntk.lora",
        ),
        ((), "[method]\ntokens = 4", "tokens has no effect on the method lora; .* reads it: prefix"),
        (("--method", "lora"), "[method.ntk]\nsize = 4", "ntk has no effect on the method lora"),
        (
            ("--method", "probe"),
            "[training]\nwarmup = 0.2",
            "training.warmup has no effect on the method probe",
        ),
        (CAUSAL[-2:], "[training]\nhead_rate = 0.1", "head_rate has no effect on causal-lm"),
        (IMAGES[2:4], "[training]\nby_length = true", "by_length has no effect on image-classification"),
    ],
)
def test_tune_refuses_settings_of_its_file_that_it_would_ignore(
    requested, tmp_path, words, settings, message
):
    path = tmp_path / "tune.toml"
    path.write_text(settings)
    call = (*CAUSAL[:6], *words)
    assert isinstance(requested(*call), TuningRequest)
    assert re.search(message, requested(*call, "--config", str(path)))


class Reached(Exception):
    """Raised at the point of a command that an option has to reach."""


WITH_THREADS = ("tune", "predict", "compress", "generate", "chat", "serve", "export", "evaluate", "spectrum")
CALLS = {
    "tune": "--model m --train t --out o",
    "predict": "--adapter a",
    "compress": "--model m --prompt p --out o",
    "generate": "text",
    "serve": "--model m",
    "export": "folder --to vllm",
    "forecast": "file --horizon 1",
    "evaluate": "file --horizon 1",
    "stages": "file",
    "spectrum": "model",
    "report": "run",
    "new-claims": "Name",
    "demo": "forecast",
    "data add": "folder",
    "data get": "name",
}


def stopped(monkeypatch, name: str, words: list[str]) -> object:
    """The value that a part of the wrapper gets before the command starts."""

    def stop(value):
        raise Reached(value)

    monkeypatch.setattr(common_options, name, stop)
    return RUNNER.invoke(app, words).exception.args[0]


@pytest.mark.parametrize("name", WITH_THREADS)
def test_jobs_limit_the_threads_of_every_command(monkeypatch, name):
    words = [*name.split(), *CALLS.get(name, "").split()]
    assert stopped(monkeypatch, "_limited_threads", [*words, "--jobs", "3"]) == 3
    assert stopped(monkeypatch, "_limited_threads", words) is None


@pytest.mark.parametrize(
    "name", [name for name, command in commands().items() if "--quiet" in options_of(command)]
)
def test_quiet_and_json_silence_the_libraries_of_every_command(monkeypatch, name):
    words = [*name.split(), *CALLS.get(name, "").split()]
    assert stopped(monkeypatch, "_silent_libraries", [*words, "--quiet"]) is True
    assert stopped(monkeypatch, "_silent_libraries", [*words, "--json"]) is True
    assert stopped(monkeypatch, "_silent_libraries", words) is False


@pytest.mark.parametrize(
    "words",
    [
        "forecast long.csv --horizon 2 --out x.png --plot ./x.png",
        "stages metrics.csv --out x.png --plot x.png",
        "forecast long.csv --horizon 2 --out x.csv --fitted x.csv",
        "forecast long.csv --horizon 2 --holidays DE --fitted x.csv --contributions x.csv",
    ],
)
def test_two_outputs_cannot_be_one_file(run, words):
    assert re.search("--[a-z]+ and --[a-z]+ both write to", run(words))


def test_every_output_path_is_compared_with_the_inputs():
    read = {"adapter", "against", "ask", "calibration", "config", "eval_", "future", "prompt", "train"}
    folders = {"store", "slots"}
    options = [option for command in commands().values() for option in command.params]
    paths = {one.name for one in options if one.param_type_name == "option" and one.metavar == "PATH"}
    assert paths == {*common_options._WRITTEN, *read, *folders}


@pytest.mark.parametrize("flag", ["--out", "--fitted", "--contributions"])
def test_a_forecast_never_overwrites_its_data(inputs, flag):
    table = inputs / "long.csv"
    before = table.read_bytes()
    words = ["forecast", str(table), "--horizon", "2", "--holidays", "DE", flag, str(table)]
    assert "is also an input" in str(RUNNER.invoke(app, words).exception)
    assert table.read_bytes() == before


@pytest.mark.parametrize(
    "words",
    [
        "forecast long.csv --horizon 2 --out f.html",
        "forecast long.csv --horizon 2 --report r.png",
        "forecast long.csv --horizon 2 --plot p.html",
        "evaluate long.csv --horizon 2 --out e.json",
    ],
)
def test_a_file_of_another_kind_is_refused_before_any_work(run, words, monkeypatch):
    monkeypatch.setattr(
        "attangent.forecast.pipeline.forecaster.read_series", lambda *_, **named: pytest.fail("worked")
    )
    assert "expected a name ending in" in run(words)


def test_the_files_of_a_model_are_not_overwritten(inputs):
    model = inputs / "llama"
    for name in ("config.json", "model.safetensors"):
        before = (model / name).read_bytes()
        done = RUNNER.invoke(app, ["spectrum", str(model), "--out", str(model / name)])
        assert "is also an input" in str(done.exception)
        assert (model / name).read_bytes() == before
    assert not RUNNER.invoke(app, ["spectrum", str(model), "--out", str(model / "spectrum.csv")]).exception
