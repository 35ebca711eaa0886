"""The commands stages and spectrum."""

import json
from unittest import mock

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from attangent.cli.commands import app
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
