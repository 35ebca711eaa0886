import json

import torch
from typer.testing import CliRunner

from attangent._version import __version__
from attangent.cli import app, doctor
from attangent.data import get_set


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
