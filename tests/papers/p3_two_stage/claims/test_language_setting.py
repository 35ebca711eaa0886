"""The tests of `papers/p3/language_setting.py`."""

import gzip
import json
import os

import pytest

from attangent.papers.p3_two_stage.claims import language_setting
from tests.papers.harness import check

TINY = {"width": 16, "layers": 1, "batch": 32, "epochs": 1, "most_examples": 60}


def test_the_file_of_hotpotqa_is_taken_where_it_is(tmp_path, monkeypatch):
    rows = [{"question": f"Who is number {i} of all ?", "answer": f"person {i % 3}"} for i in range(40)]
    path = tmp_path / language_setting.HOTPOTQA[0]
    path.parent.mkdir()
    path.write_bytes(gzip.compress(json.dumps(rows).encode()))
    for folder, expected in ((tmp_path, 1.0), (tmp_path / "none", 0.0)):
        monkeypatch.setenv("ATTANGENT_DATA", str(folder))
        finding = check("P3/figure-7", source="HotpotQA", **TINY)
        assert finding.hypotheses[0].measured == expected
        assert ("ATTANGENT_DATA" in finding.remark) == (expected == 0)


def test_counterfact_is_taken_where_it_is(monkeypatch):
    folder = os.environ.get("ATTANGENT_DATA")
    if not folder or not language_setting._files("CounterFact"):
        pytest.skip("set ATTANGENT_DATA to a folder with the three files of counterfact/")
    finding = check("P3/figure-5", source="CounterFact", facts=100, **TINY)
    assert finding.hypotheses[0].met
    assert finding.remark == "Trained on 178 examples of CounterFact."
    monkeypatch.delenv("ATTANGENT_DATA")
    assert not check("P3/figure-5", source="CounterFact", facts=100, **TINY).hypotheses[0].met
