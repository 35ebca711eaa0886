"""The commands stages, spectrum and doctor."""

import json
import re
import tomllib
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest
import torch
from typer.testing import CliRunner

from attangent._version import __version__
from attangent.cli import inspection as doctor
from attangent.cli.commands import app
from attangent.data import get_set
from tests.stages.models import made


def invoked(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_stages_of_a_csv(tmp_path):
    steps = np.arange(100)
    frame = pd.DataFrame({"step": steps, "a": 1 + 1 / (1 + np.exp((steps - 50) / 4)), "b": 2.0})
    frame.to_csv(tmp_path / "m.csv", index=False)
    said = invoked("stages", tmp_path / "m.csv", "--plot", tmp_path / "m.png")
    assert "b: on its plateau of 2" in said.output
    assert (tmp_path / "m.png").exists()
    found = json.loads(invoked("stages", tmp_path / "m.csv", "--json", "--group", "a").stdout)
    assert [round(stage["onset"]) for stage in found["stages"]] == [41]
    assert found["order"]["names"] == ["a"]


def test_spectrum_of_a_folder(tmp_path):
    made("llama").save_pretrained(tmp_path / "model")
    said = invoked("spectrum", tmp_path / "model", "--layer", "1", "--target", "mlp", "--json")
    rows = json.loads(said.stdout)
    assert {row["module"].rsplit(".", 1)[-1] for row in rows} == {"gate_proj", "up_proj", "down_proj"}
    said = invoked("spectrum", tmp_path / "model", "--plot", tmp_path / "s.png")
    assert "for_90_percent" in said.output
    assert (tmp_path / "s.png").exists()


def test_a_model_that_is_nowhere_is_asked_for_once(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("transformers.AutoConfig.from_pretrained", lambda *_: pytest.fail("asked again"))
    with mock.patch("huggingface_hub.HfApi.model_info", side_effect=ConnectionError("no net")) as asked:
        said = invoked("spectrum", "nobody/nothing")
    assert "the Hub could not be reached (no net)" in str(said.exception)
    assert asked.call_count == 1


def facts() -> dict[str, doctor.Fact]:
    return {fact.name: fact for fact in doctor.examine()}


def test_doctor_prints_every_fact_and_the_same_as_json():
    told = CliRunner().invoke(app, ["doctor"])
    assert told.exit_code == 0
    listed = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert {"attangent", "cores", "threads", "data", "compiled code"} <= {fact["name"] for fact in listed}
    assert all(fact["name"] in told.stdout for fact in listed)


def test_versions_are_those_installed():
    found = facts()
    assert found["attangent"].found == __version__
    assert found["torch"].found.partition("+")[0] == torch.__version__.partition("+")[0]
    assert all(found[name].fine for name in ("torch", "numpy", "pandas"))


def test_a_missing_extra_says_what_it_would_add(monkeypatch):
    monkeypatch.setattr(doctor, "EXTRAS", {"dream": (("no-such-package",), "dreams")})
    fact = facts()["extra dream"]
    assert not fact.fine
    assert fact.advice == "pip install 'attangent[dream]' adds dreams"


def test_more_threads_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr("joblib.cpu_count", lambda: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    fact = facts()["threads"]
    assert not fact.fine
    assert "OMP_NUM_THREADS=1" in fact.advice


def test_data_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    assert facts()["data"].found == "only the samples in the package"
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path / "gone"))
    assert facts()["data"].found == f"there is no folder {tmp_path / 'gone'}"
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path))
    assert not facts()["data"].fine
    for file in get_set("ett").files:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_text("x")
    assert facts()["data"].found == f"ett in {tmp_path}"


def test_packages_are_traced_to_their_extras():
    assert doctor.extra_with("peft") == doctor.extra_with("huggingface_hub") == "adapters"
    assert doctor.extra_with("nonesuch") is None


def test_doctor_knows_every_extra_that_a_user_installs():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    extras = {
        name: {re.match(r"[\w-]+", line)[0] for line in lines}
        - {"attangent", "regex"}  # transformers needs regex
        for name, lines in project["optional-dependencies"].items()
        if name not in ("dev", "docs", "gpu")
    }
    assert {name: set(packages) for name, (packages, _) in doctor.EXTRAS.items()} == extras
