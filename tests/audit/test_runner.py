import math
import os
import pty
import re
import sys
from dataclasses import replace

import pytest
import torch

from attangent import AttangentError
from attangent.audit import Settings, Verdict, load, run
from attangent.audit.results import SeedValues
from attangent.audit.runner import ABSENT, CheckTask, data_digests, execute, progress_bar
from attangent.audit.storing import Origin, Store
from attangent.data.places import data_file
from tests.audit.fakes import SETTINGS, crashing, forgetful, make_claim, steady

WELL = ["P1/lemma-1", "P1/lemma-2"]


def contents(found):
    return {record.origin.stem: record.content() for record in found.records}


def seconds(found):
    return {record.origin.stem: record.seconds for record in found.records}


def test_findings_of_a_run(claims, tmp_path):
    found = run(WELL, out=tmp_path / "r")
    assert [(r.origin.claim, r.origin.seed) for r in found.records] == [
        (id, s) for id in WELL for s in (0, 1)
    ]
    assert {result.verdict.value for result in found.results()} == {"holds"}
    assert contents(load(tmp_path / "r")) == contents(found)
    assert found.failures == ()
    assert found.problems == {}


def test_nothing_is_computed_twice(claims, tmp_path):
    first = run(WELL[:1], out=tmp_path)
    both = run(WELL, out=tmp_path)
    assert seconds(first).items() <= seconds(both).items()
    again = run(WELL, out=tmp_path, force=True)
    assert contents(again) == contents(both)
    assert not seconds(first).items() & seconds(again).items()


def test_other_settings_or_code_are_computed_anew_and_stale_seeds_set_aside(claims, tmp_path):
    run(WELL[:1], out=tmp_path, seeds=3)
    claims[WELL[0]] = make_claim(WELL[0], settings=Settings(n=50, bound=1e9, needed=1))
    found = run(WELL[:1], out=tmp_path, seeds=3)
    assert {record.origin.settings["n"] for record in found.records} == {50}
    assert len(load(tmp_path).records) == 3


def test_findings_by_other_code_are_not_mixed_in(claims, tmp_path, monkeypatch):
    run(WELL[:1], out=tmp_path, seeds=3)
    monkeypatch.setattr("attangent.audit.runner.code_version", lambda module: "newer")
    found = run(WELL[:1], out=tmp_path, seeds=1)
    assert [record.origin.code for record in load(tmp_path).records] == ["newer"]
    assert sorted(found.problems.values()) == [
        f"P1--lemma-1--seed-{seed}.json: it was made by other code" for seed in (1, 2)
    ]


def test_a_crashing_check_does_not_stop_the_others(claims, tmp_path):
    found = run(["P1/lemma-1", "P2/lemma-3"], out=tmp_path)
    assert len(found.records) == 3
    assert [(f["claim"], f["seed"]) for f in found.failures] == [("P2/lemma-3", 1)]
    assert "RuntimeError: seed one is bad luck" in found.failures[0]["traceback"]


def test_a_damaged_finding_is_set_aside_named_and_computed_again(claims, tmp_path):
    first = run(WELL, out=tmp_path)
    broken = tmp_path / "findings" / "P1--lemma-1--seed-1.json"
    broken.write_text(broken.read_text().replace("holds", "HOLDS"))
    (tmp_path / "findings" / "foreign.txt").write_text("hello")
    second = run(WELL, out=tmp_path)
    assert contents(second) == contents(first)
    assert sorted(second.problems.values()) == [
        "P1--lemma-1--seed-1.json: it does not match its checksum",
        "foreign.txt: it is not a finding",
    ]
    assert len(os.listdir(tmp_path / "set-aside")) == 3
    assert run(WELL, out=tmp_path).problems == {}


def test_the_seeds_of_a_claim_and_of_the_user(claims, tmp_path):
    assert len(run(["P1/lemma-1"], out=tmp_path / "a").records) == 2
    assert len(run(["P1/lemma-1"], out=tmp_path / "b", seeds=5).records) == 5


def _seeds_run(tmp_path, **arguments):
    return [record.origin.seed for record in run(["P1/lemma-1"], out=tmp_path, **arguments).records]


def test_the_full_profile_leaves_the_seeds_alone_on_which_settings_were_chosen(claims, tmp_path):
    assert _seeds_run(tmp_path / "quick") == [0, 1]
    assert _seeds_run(tmp_path / "full", profile="full") == [1000, 1001]
    assert _seeds_run(tmp_path / "fresh", first_seed=100, seeds=3) == [100, 101, 102]


def test_the_full_profile_may_run_another_number_of_seeds(claims, tmp_path):
    claims["P1/lemma-1"] = replace(claims["P1/lemma-1"], full_seeds=1)
    assert _seeds_run(tmp_path / "quick") == [0, 1]
    assert _seeds_run(tmp_path / "full", profile="full") == [1000]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"profile": "fast"}, "unknown profile 'fast'"),
        ({"seeds": 0}, "seeds must be between 1 and 100,000 .got 0"),
        ({"seeds": 2**31}, "seeds must be between 1 and 100,000"),
        ({"first_seed": -1}, "first_seed must be at least 0"),
        ({"jobs": 0}, "jobs must be at least 1"),
        ({"ids": ["P7/lemma-1"]}, "unknown claim id"),
        ({"paper": "P7"}, "unknown paper"),
    ],
)
def test_bad_arguments_are_refused_before_anything_is_written(claims, tmp_path, arguments, message):
    with pytest.raises(AttangentError, match=message):
        run(out=tmp_path / "new", **arguments)
    assert os.listdir(tmp_path) == []


def test_frames(claims, tmp_path):
    claims["P1/lemma-1"] = replace(claims["P1/lemma-1"], quick=Settings(n=300, bound=-1e9, needed=10**6))
    found = run(WELL, out=tmp_path)
    frame = found.frame()
    assert list(frame.groupby("claim")["verdict"].first()) == ["not reproduced", "holds"]
    assert not frame.loc[frame.claim == "P1/lemma-1", "hypotheses_met"].any()
    assert len(frame) == 4
    numbers = found.numbers()
    total = numbers[(numbers.claim == "P1/lemma-2") & (numbers.name == "total")].value
    spread = found.results()[1].numbers["total"]
    assert spread.mean == pytest.approx(total.mean())
    assert spread.deviation == pytest.approx(total.std())
    assert (spread.low, spread.high) == (total.min(), total.max())


def test_spread_with_a_value_that_is_not_finite():
    spread = SeedValues((1.0, math.inf))
    assert (spread.mean, spread.low, spread.high) == (math.inf, 1.0, math.inf)
    assert math.isnan(spread.deviation)


def test_json_of_a_run(claims, tmp_path):
    import json

    shown = json.loads(json.dumps(run(WELL, out=tmp_path).as_json(), allow_nan=False))
    assert shown["totals"] == dict.fromkeys(Verdict, 0) | {"holds": 2}
    first = shown["results"][0]
    assert (first["claim"], first["verdict"], first["verdicts"]) == (
        WELL[0],
        "holds",
        {"0": "holds", "1": "holds"},
    )
    assert len(first["numbers"]["total"]["values"]) == 2
    assert first["conclusions"][0]["kept"] is True


def test_a_file_is_no_run(tmp_path):
    (tmp_path / "run.txt").write_text("x")
    with pytest.raises(AttangentError, match="is a file; pass the folder of an audit run"):
        load(tmp_path / "run.txt")


def test_each_finding_is_read_once(claims, tmp_path, monkeypatch):
    run(WELL, out=tmp_path)
    read = []
    real = Store.read
    monkeypatch.setattr(Store, "read", lambda self, stem: read.append(stem) or real(self, stem))
    run(WELL, out=tmp_path)
    assert sorted(read) == sorted(set(read))
    assert len(read) == 4


def test_a_crash_is_a_result_of_its_own_kind(claims, tmp_path):
    claims["P2/lemma-3"] = make_claim("P2/lemma-3", crashing, seeds=2)
    found = run(["P2/lemma-3"], out=tmp_path)
    (result,) = found.results()
    assert [record.finding.verdict.value for record in result.records] == ["holds", "crashed"]
    assert result.records[1].finding.crash == "RuntimeError: seed one is bad luck"
    assert result.verdict is Verdict.HOLDS


def test_a_folder_without_a_run(tmp_path):
    with pytest.raises(AttangentError, match="holds no audit run; start one with"):
        load(tmp_path)


def tasks(*checks):
    claims = [make_claim(f"P1/{check.__name__}", check) for check in checks]
    return [
        CheckTask(claim, Origin(claim.id, "", "", "", "quick", dict(SETTINGS), seed, "code"))
        for claim in claims
        for seed in range(2)
    ]


def test_checks_run_on_one_thread_and_the_caller_keeps_its_own():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        outcomes = [outcome for _, outcome in execute(tasks(steady))]
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)
    assert [outcome.finding.numbers["threads"] for outcome in outcomes if outcome.finding] == [1, 1]


def test_a_crash_becomes_a_traceback():
    by_name = {task.name: outcome for task, outcome in execute(tasks(crashing, forgetful))}
    assert by_name["P1/crashing seed 0"].finding is not None
    assert by_name["P1/crashing seed 1"].finding is None
    assert "seed one is bad luck" in by_name["P1/crashing seed 1"].traceback
    assert "expected a Finding" in by_name["P1/forgetful seed 0"].traceback


def test_a_check_whose_worker_died_is_a_failure_that_says_so(monkeypatch):
    """`tests/_core/test_parallel.py` kills the workers themselves."""

    def always_dying(work, tasks, jobs, died):
        yield from enumerate(map(died, tasks))

    monkeypatch.setattr("attangent.audit.runner.in_processes", always_dying)
    outcomes = [outcome for _, outcome in execute(tasks(steady), jobs=2)]
    assert [outcome.finding for outcome in outcomes] == [None, None]
    assert all("died 3 times" in outcome.traceback for outcome in outcomes)


def test_a_terminal_shows_the_claim_the_count_and_the_time_left(claims, tmp_path, monkeypatch):
    ours, theirs = pty.openpty()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with open(theirs, "w") as terminal:
        monkeypatch.setattr(sys, "stderr", terminal)
        run(WELL, out=tmp_path, quiet=False)
        os.set_blocking(ours, False)
        shown = os.read(ours, 1 << 16)
    os.close(ours)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown.decode())
    assert "P1/lemma-1 seed 0" in text
    assert re.search(r"\d of 4", text)
    assert re.search(r"-:--:--|\d:\d\d:\d\d", text)


def test_nothing_is_shown_where_nobody_watches(capfd):
    with progress_bar({"a": 1.0}) as advance:
        advance("a")
    assert capfd.readouterr() == ("", "")


def test_quiet_is_quiet_on_a_terminal_too(monkeypatch, capfd):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress_bar({"a": 1.0}, quiet=True) as advance:
        advance("a")
    assert capfd.readouterr() == ("", "")


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
