import torch

from attangent._version import __version__
from attangent.cli import environment as _doctor
from attangent.data import get_set


def facts() -> dict[str, _doctor.Fact]:
    return {fact.name: fact for fact in _doctor.examine()}


def test_versions_are_those_installed():
    found = facts()
    assert found["attangent"].found == __version__
    assert found["torch"].found == torch.__version__
    assert all(found[name].fine for name in ("torch", "numpy", "pandas"))


def test_a_missing_extra_says_what_it_would_give(monkeypatch):
    monkeypatch.setattr(_doctor, "EXTRAS", {"dream": (("no-such-package",), "dreams")})
    fact = facts()["extra dream"]
    assert not fact.fine
    assert fact.advice == "pip install 'attangent[dream]' gives dreams"


def test_more_threads_than_cores_are_warned_of(monkeypatch):
    monkeypatch.setattr(_doctor, "available_cores", lambda: 1)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 4)
    fact = facts()["threads"]
    assert not fact.fine
    assert "OMP_NUM_THREADS=1" in fact.advice


def test_data_that_is_not_there(monkeypatch, tmp_path):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    assert facts()["data"].found == "the samples that come along"
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path / "gone"))
    assert facts()["data"].found.endswith("gone is no folder")
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path))
    assert not facts()["data"].fine
    for file in get_set("ett").files:
        (tmp_path / file.path).parent.mkdir(exist_ok=True)
        (tmp_path / file.path).write_text("x")
    assert facts()["data"].found == f"ett in {tmp_path}"


def test_packages_are_traced_to_their_extras():
    assert _doctor.extra_with("peft") == _doctor.extra_with("huggingface_hub") == "adapters"
    assert _doctor.extra_with("nonesuch") is None
