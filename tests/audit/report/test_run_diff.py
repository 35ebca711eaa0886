from attangent.audit import Conclusion, Finding
from attangent.audit.report.run_diff import compare_runs, run_name
from attangent.audit.results import Run
from attangent.audit.storing import FindingRecord, Origin

KEPT = Conclusion("kept", "<=", 1.0, 0.5, part="a")
BROKEN = Conclusion("broken", "<=", 1.0, 1.5, part="a")
OTHER = Conclusion("other", "<=", 1.0, 1.5, part="b")


def make_run(tmp_path, findings, profile="quick", seeds=(0,)):
    records = tuple(
        FindingRecord(
            Origin(f"P2/{name}", "Title", "Section 1", "s", profile, {}, seed, "c"), finding, 0.1, {}
        )
        for name, finding in findings.items()
        for seed in seeds
    )
    return Run(tmp_path, profile, records, (), {})


def test_equal_runs_do_not_differ(tmp_path):
    run = make_run(tmp_path, {"lemma-1": Finding((KEPT,)), "lemma-2": Finding((BROKEN,))})
    found = compare_runs(run, run)
    assert len(found.pairs) == 2
    assert found.differing == []
    assert found.only_here == found.only_there == ()


def test_another_verdict_and_another_verdict_of_a_part_are_differences(tmp_path):
    here = make_run(tmp_path, {"lemma-1": Finding((KEPT,)), "lemma-2": Finding((KEPT, OTHER))})
    there = make_run(tmp_path, {"lemma-1": Finding((BROKEN,)), "lemma-2": Finding((BROKEN, OTHER))})
    first, second = compare_runs(here, there).differing
    assert first.here.verdict != first.there.verdict
    assert second.here.verdict == second.there.verdict
    assert second.parts == ["a"]


def test_claims_of_one_run_alone_are_named(tmp_path):
    here = make_run(tmp_path, {"lemma-1": Finding((KEPT,)), "lemma-2": Finding((KEPT,))})
    there = make_run(tmp_path, {"lemma-2": Finding((KEPT,)), "lemma-3": Finding((KEPT,))})
    found = compare_runs(here, there)
    assert found.only_here == ("P2/lemma-1",)
    assert found.only_there == ("P2/lemma-3",)


def test_runs_are_named_by_their_profile_and_seeds(tmp_path):
    assert run_name(make_run(tmp_path, {"lemma-1": Finding((KEPT,))})) == "quick, seed 0"
    full = make_run(tmp_path, {"lemma-1": Finding((KEPT,))}, "full", (1000, 1002))
    assert run_name(full) == "full, seeds 1000 to 1002"
    assert run_name(make_run(tmp_path, {})) == "quick, no seeds"
