"""Options that a command passes on: what reaches the audit, the server, the forecaster and the others."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli.commands import app
from tests.cli.test_auditing import claims, invoke  # noqa: F401  fixtures
from tests.serving.conftest import model_folder, prefix_folders  # noqa: F401  fixtures

RUNNER = CliRunner()


@pytest.fixture
def long_table(tmp_path):
    rows = [f"{name},2024-01-{day:02},{day}" for name in "ab" for day in range(1, 21)]
    (tmp_path / "long.csv").write_text("\n".join(["unique_id,ds,y", *rows]))
    return str(tmp_path / "long.csv")


def test_an_audit_takes_its_seeds_and_sizes(invoke):  # noqa: F811
    def results(*words):
        (result,) = json.loads(invoke("audit", "P1/lemma-1", "--jobs", "1", "--json", *words)[1])["results"]
        return result

    assert list(results("--seeds", "1")["verdicts"]) == ["0"]
    assert list(results("--seeds", "2", "--seed", "5", "--out", "b")["verdicts"]) == ["5", "6"]
    assert results("--profile", "full", "--seeds", "1")["settings"]["n"] == 400
    assert Path("audit-full/report.html").is_file()


def test_an_audit_takes_its_workers(invoke, monkeypatch):  # noqa: F811
    from attangent._core import parallel
    from attangent.audit import runner

    seen = []
    monkeypatch.setattr(runner, "in_processes", lambda work, tasks, jobs, died: seen.append(jobs) or [])
    monkeypatch.setattr(parallel, "on_cluster", lambda work, tasks, place, died: seen.append(place) or [])
    invoke("audit", "P1/*", "--jobs", "3")
    invoke("audit", "P1/*", "--dask", "tcp://here:1")
    assert seen == [3, "tcp://here:1"]
    assert "--jobs has no effect with --dask" in invoke("audit", "--dask", "tcp://here:1", "--jobs", "2")[2]


def test_an_existing_finding_is_measured_again_with_force(invoke, tmp_path):  # noqa: F811
    words = ("audit", "P1/lemma-1", "--jobs", "1", "--seeds", "1", "--quiet")

    def written():
        (path,) = (tmp_path / "audit-quick/findings").glob("*.json")
        return path.stat().st_mtime_ns

    invoke(*words)
    before = written()
    invoke(*words)
    assert written() == before
    invoke(*words, "--force")
    assert written() > before


@pytest.mark.parametrize(
    "option", ["--seeds 1", "--seed 1", "--jobs 1", "--dask x", "--out x", "--force", "--profile full"]
)
def test_a_list_of_claims_refuses_what_it_would_ignore(invoke, option):  # noqa: F811
    code, _, errors = invoke("audit", "--list", *option.split())
    assert code == 2
    assert f"{option.split()[0]} has no effect with --list" in errors


def test_a_report_is_quiet_and_writes_figures(invoke, tmp_path):  # noqa: F811
    invoke("audit", "P1/lemma-1", "--jobs", "1", "--quiet", "--out", "r")
    assert invoke("report", "r", "--quiet")[1] == ""
    assert invoke("report", "r", "--out", "page.md", "--figures", "drawn")[0] == 0
    assert (tmp_path / "drawn").is_dir()


def test_predict_passes_on_its_options(monkeypatch, tmp_path):
    from attangent.tuning.folders import answers, tuned

    seen = []

    def load(adapter, model):
        seen.append(model)
        return SimpleNamespace(predict=lambda rows, batch: seen.append(batch) or [])

    monkeypatch.setattr(tuned, "load_tuned", load)
    monkeypatch.setattr(answers, "rows_to_predict", lambda model, rows: SimpleNamespace(rows=[]))
    monkeypatch.setattr(answers, "predictions_csv", lambda predictions, rows: "row\n")
    call = ["predict", "--adapter", "a", "--batch", "7", "--model", "m"]
    assert RUNNER.invoke(app, call, input="x").output == "row\n"
    assert seen == ["m", 7]
    assert RUNNER.invoke(app, [*call, "--json"], input="x").output == "[]\n"
    out = ["--out", str(tmp_path / "p.csv")]
    assert "predictions in" in RUNNER.invoke(app, [*call, *out], input="x").output
    assert RUNNER.invoke(app, [*call, *out, "--quiet"], input="x").output == ""


def test_compress_passes_on_its_options(monkeypatch, tmp_path):
    from attangent import compression
    from attangent.adapters import hub
    from attangent.compression import prompt as prompts

    seen = []

    def stop(network, tokenizer, request, out, progress):
        seen.append(request)
        raise AttangentError("enough")

    monkeypatch.setattr(hub, "load_causal_lm", lambda name: (None, None))
    monkeypatch.setattr(prompts, "as_prompt", lambda text, tokenizer: f"chat: {text}")
    monkeypatch.setattr(compression, "compress_to_folder", stop)
    (tmp_path / "p.txt").write_text("words")
    (tmp_path / "c.json").write_text('[{"role": "system", "content": "words"}]')

    def call(*words, prompt="p.txt"):
        out = str(tmp_path / "out")
        return RUNNER.invoke(
            app, ["compress", "--model", "m", "--prompt", str(tmp_path / prompt), "--out", out, *words]
        )

    call()
    call("--seconds", "9", "--distill", "7", "--seed", "5", "--plain")
    assert [request.prompt for request in seen] == ["chat: words", "words"]
    assert (seen[1].seconds, seen[1].distill, seen[1].seed) == (9, 7, 5)
    assert "--keep 0 does not search" in str(call("--seconds", "9", "--keep", "0").exception)
    assert "is a chat; leave it out" in str(call("--plain", prompt="c.json").exception)


@pytest.fixture
def served(monkeypatch, model_folder, tmp_path):  # noqa: F811
    """Start a server up to its announcement; gives what it prints, the service and the address."""
    from attangent.serving import server

    seen = []

    def announce_only(service, listener, announce):
        announce()
        seen.append((service, listener.getsockname()))
        service.close() if hasattr(service, "close") else None

    monkeypatch.setattr(server, "run", announce_only)

    def call(*words):
        done = RUNNER.invoke(
            app,
            ["serve", "--model", str(model_folder), "--port", "0", "--store", str(tmp_path / "s"), *words],
        )
        if done.exception:
            raise done.exception
        return done.output, *seen.pop()

    return call


def test_a_server_gets_its_models_and_address(served, prefix_folders, tmp_path):  # noqa: F811
    output, _, address = served("--prefix", f"red={prefix_folders['red']}", "--host", "localhost")
    assert "red" in output
    assert address[0] in ("127.0.0.1", "::1")
    with pytest.raises(AttangentError, match="must be NAME=FOLDER"):
        served("--adapter", "x")
    with pytest.raises(AttangentError, match="port"):
        served("--port", "99999")
    assert (tmp_path / "s").is_dir()
    with pytest.raises(AttangentError, match="model"):
        RUNNER.invoke(
            app, ["serve", "--model", str(tmp_path), "--store", str(tmp_path)], catch_exceptions=False
        )


def test_a_server_gets_its_limits(served):
    output, service, _ = served("--api-key", "k" * 20, "--rows", "3", "--seconds", "9", "--quiet")
    settings = service.settings
    assert (settings.api_key, settings.most_rows, settings.request_seconds) == ("k" * 20, 3, 9)
    assert "OpenAI base URL" not in output
    assert json.loads(served("--json")[0])["models"]


def test_a_forecast_takes_its_workers(long_table, monkeypatch):
    from attangent.forecast.pipeline.forecaster import SeriesForecaster

    def stop(self, *args, workers, **named):
        raise AttangentError(f"jobs {workers.jobs}, dask {workers.dask}")

    monkeypatch.setattr(SeriesForecaster, "outlook", stop)
    call = ["forecast", long_table, "--horizon", "2"]
    assert "jobs 3, dask None" in str(RUNNER.invoke(app, [*call, "--jobs", "3"]).exception)
    assert "jobs 1, dask here:1" in str(RUNNER.invoke(app, [*call, "--dask", "here:1"]).exception)
    both = RUNNER.invoke(app, [*call, "--dask", "here:1", "--jobs", "2"])
    assert "--jobs has no effect with --dask" in str(both.exception)


def test_doctor_names_only_what_is_missing():
    def named(*options):
        lines = RUNNER.invoke(app, ["doctor", *options]).output.splitlines()
        return [line.split()[1] for line in lines if line and not line.startswith(" ")]

    assert "attangent" not in named("--quiet")
    assert "attangent" in named()


def test_a_demo_passes_quiet_on(tmp_path, monkeypatch):
    from attangent.forecast.pipeline.forecaster import SeriesForecaster

    def stop(self, *args, **named):
        raise AttangentError("enough")

    monkeypatch.setattr(SeriesForecaster, "outlook", stop)
    loud = RUNNER.invoke(app, ["demo", "forecast", "--out", str(tmp_path)])
    assert loud.output.startswith("$ attangent forecast")
    assert RUNNER.invoke(app, ["demo", "forecast", "--out", str(tmp_path), "--quiet"]).output == ""
    (tmp_path / "employment.csv.gz").write_text("mine")
    refused = RUNNER.invoke(app, ["demo", "forecast", "--out", str(tmp_path)])
    assert "would be overwritten" in str(refused.exception)
    assert (tmp_path / "employment.csv.gz").read_text() == "mine"


@pytest.fixture
def own_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTANGENT_CONFIG", str(tmp_path / "settings"))
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)


@pytest.mark.usefixtures("own_settings")
def test_added_folders_are_described_or_not(tmp_path, monkeypatch):
    call = ["data", "add", str(tmp_path)]
    assert json.loads(RUNNER.invoke(app, [*call, "--json"]).stdout)["folder"] == str(tmp_path)
    assert RUNNER.invoke(app, [*call, "--quiet"]).stdout == ""
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path / "other"))
    assert "overrides added folders" in RUNNER.invoke(app, [*call, "--json"]).stderr


@pytest.mark.usefixtures("own_settings")
def test_downloads_come_from_the_mirror(tmp_path, monkeypatch):
    from attangent.data import places

    seen = []

    def fetch(data_set, folder, mirror, progress):
        folder.mkdir(exist_ok=True)
        seen.append((data_set.name, folder.name, mirror))
        return SimpleNamespace(places=[folder / "a.csv"], new=1)

    monkeypatch.setattr(places, "fetch", fetch)
    call = ["data", "get", "ett", "--mirror", "https://here/", "--out", str(tmp_path / "there")]
    assert "ett: 1 files" in RUNNER.invoke(app, call).output
    assert seen == [("ett", "there", "https://here/")]
    assert RUNNER.invoke(app, [*call, "--quiet"]).output == ""
    assert json.loads(RUNNER.invoke(app, [*call, "--json"]).stdout)["files"]["ett"]


def test_a_base_model_is_refused_where_the_folder_holds_all(monkeypatch, tmp_path):
    from attangent.tuning.folders import tuned

    monkeypatch.setattr(tuned, "is_tuned", lambda folder: True)
    monkeypatch.setattr(tuned, "needs_base", lambda folder: False)
    monkeypatch.setattr(tuned, "load_generator", lambda folder, model: (None, None))
    for call in (["predict"], ["generate", "text"], ["export", str(tmp_path), "--to", "transformers"]):
        words = [] if call[0] == "export" else ["--adapter", str(tmp_path)]
        done = RUNNER.invoke(app, [*call, *words, "--model", "m"], input="x")
        assert "holds the complete model; leave --model m out" in str(done.exception)
