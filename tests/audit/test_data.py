from dataclasses import replace

from attangent.audit import run
from attangent.audit.data import ABSENT, data_digests, data_file


def test_files_are_found_below_the_named_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    assert data_file("a.csv") is None
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path))
    assert data_digests(["a.csv"]) == {"a.csv": ABSENT}
    (tmp_path / "a.csv").write_text("1")
    one = data_digests(["a.csv"])
    (tmp_path / "a.csv").write_text("2")
    assert one != data_digests(["a.csv"]) != {"a.csv": ABSENT}


def test_a_finding_is_computed_anew_when_its_data_come_or_change(claims, tmp_path, monkeypatch):
    claims["P1/lemma-1"] = replace(claims["P1/lemma-1"], data=("a.csv",), seeds=1)
    monkeypatch.setenv("ATTANGENT_DATA", str(tmp_path))

    def found():
        record = run(["P1/lemma-1"], out=tmp_path / "run").records[0]
        return record.origin.settings["data"]["a.csv"], record.seconds

    without = found()
    assert without[0] == ABSENT
    assert found() == without
    (tmp_path / "a.csv").write_text("1")
    assert found()[0] not in (ABSENT, without)
