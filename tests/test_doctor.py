import torch

from attangent import _doctor
from attangent._version import __version__


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
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path / "gone"))
    assert not facts()["data"].fine
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path))
    assert facts()["data"].fine
