"""The sample for independent readings: a seed fixes it, ours are not in it, readings are scored."""

import pytest
from docs.tools.sample_verdicts import dossier, draw, score

from attangent.audit.results import Result
from tests.audit.examples import bounded, make_record

RESULTS = [Result((make_record(f"P1/lemma-{i}", bounded(0.5)),)) for i in range(40)]
OURS = Result((make_record("P1/lemma-1-repaired", bounded(0.5), kind="ours"),))


def test_a_seed_fixes_the_sample_and_ours_are_not_in_it():
    first = [result.claim for result in draw([*RESULTS, OURS], 30, 1)]
    assert first == [result.claim for result in draw([*RESULTS, OURS], 30, 1)]
    assert first != [result.claim for result in draw([*RESULTS, OURS], 30, 2)]
    assert len(set(first)) == 30
    assert OURS.claim not in first


def test_the_dossier_holds_verdict_and_lines():
    text = dossier(RESULTS[0])
    assert "**Verdict:** Holds." in text
    assert "line (decides): error: 0.5 <= 1" in text


def reading(path, *answers):
    rows = "".join(f"P1/lemma-{i},holds,{answer},\n" for i, answer in enumerate(answers))
    path.write_text(f"claim,verdict,accepted,note\n{rows}", encoding="utf-8")
    return path


def test_readings_are_scored_with_an_interval(tmp_path):
    first = reading(tmp_path / "a.csv", "yes", "yes", "no", "yes")
    second = reading(tmp_path / "b.csv", "yes", "no", "no", "yes")
    lines = list(score([first, second]))
    assert lines[0] == f"{first}: 3 of 4: 75.0% (30.1% to 95.4%)"
    assert lines[2].startswith("accepted by all: 2 of 4: 50.0%")


def test_files_of_one_name_are_two_readers(tmp_path):
    folders = [tmp_path / name for name in ("first", "second")]
    for folder in folders:
        folder.mkdir()
    lines = list(
        score([reading(folders[0] / "r.csv", "yes", "no"), reading(folders[1] / "r.csv", "no", "no")])
    )
    assert [line.split(":")[-2].strip() for line in lines] == ["1 of 2", "0 of 2", "0 of 2"]


def test_an_empty_answer_is_refused(tmp_path):
    with pytest.raises(SystemExit, match="accepted must be yes or no for P1/lemma-1"):
        list(score([reading(tmp_path / "a.csv", "yes", "")]))
