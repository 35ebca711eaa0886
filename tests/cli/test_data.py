"""The commands below `data`, as a user types them."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli.commands import app
from attangent.data import sample


@pytest.fixture(autouse=True)
def own_settings(monkeypatch, tmp_path):
    monkeypatch.setenv("ATTANGENT_CONFIG", str(tmp_path / "settings"))
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    monkeypatch.chdir(tmp_path)


def run(*words):
    return CliRunner().invoke(app, ["data", *map(str, words)])


def test_the_list_names_licences_sources_and_samples():
    done = run("list")
    assert done.exit_code == 0
    assert "CC BY-ND 4.0" in done.output
    assert "github.com/zhouhaoyi/ETDataset" in done.output
    assert str(sample("weather")) in done.output
    described = json.loads(run("list", "ett", "--json").stdout)
    assert [file["place"] for file in described[0]["files"]] == [None, None]


def test_a_folder_is_added_checked_and_shown(tmp_path):
    (tmp_path / "mine/ett").mkdir(parents=True)
    shutil.copy(sample("weather"), tmp_path / "mine/ett/ETTh1.csv.gz")
    done = run("add", tmp_path / "mine")
    assert "has 1 of" in done.output
    assert str(tmp_path / "settings/data.json") in done.output
    assert f"searched: {tmp_path / 'mine'} (" in run("list").stdout
    assert run("list", "ett", "--quiet").stdout.splitlines() == [str(tmp_path / "mine/ett/ETTh1.csv.gz")]
    assert str(tmp_path / "mine/ett/ETTh1.csv.gz") in run("list", "ett").stdout
    checked = run("list", "ett", "--check", "--json")
    assert checked.exit_code == 1
    assert [file["state"] for file in json.loads(checked.stdout)[0]["files"]] == ["different", "missing"]
    assert run("list", "--check").exit_code == 1
    assert run("list", "--check", "gsm8k").exit_code == 1
    assert run("list", "ett").exit_code == 0


def test_samples_are_listed_by_name_too():
    assert run("list", "weather", "--quiet").stdout.splitlines() == [str(sample("weather"))]
    (row,) = json.loads(run("list", "weather", "--json").stdout)
    assert row["files"][0]["place"] == str(sample("weather"))


def test_nothing_there_is_fine_unless_it_is_asked_for_by_name():
    assert run("list", "--check", "--quiet").exit_code == 0
    assert isinstance(run("list", "ett", "--quiet").exception, AttangentError)


def test_the_variable_is_warned_of(tmp_path, monkeypatch):
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path / "other"))
    assert "overrides added folders" in run("add", tmp_path).stderr


def test_get_refuses_unknown_names_before_it_makes_a_folder(tmp_path):
    assert isinstance(run("get", "ettt").exception, AttangentError)
    assert not (tmp_path / "attangent-data").exists()
