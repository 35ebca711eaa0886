import pytest

from attangent import AttangentError
from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Proof, Step
from attangent.audit.report.markdown import compare_runs, render_markdown, run_name, write_markdown
from attangent.audit.results import Run
from attangent.audit.storing import FindingRecord, Origin
from tests.audit.examples import make_record

KEPT = Conclusion("kept | <b>", "<=", 1.0, 0.5)
BROKEN = Conclusion("|F|^2 at the end", "<=", 1.0, 1.5)
OURS = Conclusion("corrected", "<=", 3.0, -4.0, log10=True, claimed=False)


def make_run(tmp_path, *findings):
    records = tuple(
        FindingRecord(
            Origin(f"P2/lemma-{i}", "Title", "Section 1", "s", "quick", {}, 0, "c"), finding, 0.1, {}
        )
        for i, finding in enumerate(findings, 1)
    )
    return Run(tmp_path, "quick", records, (), {})


def test_table_totals_and_violations(tmp_path):
    run = make_run(
        tmp_path,
        Finding((KEPT,)),
        Finding((KEPT, BROKEN, OURS), (Hypothesis("h", ">=", 2.0, 1.0),), remark="Read *this*."),
    )
    page = render_markdown(run)
    assert "- **1 holds**" in page
    assert "| nature | holds | not reproduced |\n|---|---|---|\n| lemma | 1 | 1 |\n| all | 1 | 1 |" in page
    assert "- **1 not reproduced**" in page
    assert "| P2/lemma-1 | lemma | holds |  | kept \\| \\<b\\> | 0.5 | \\<= 1 |" in page
    assert "## P2/lemma-2: Title" in page
    assert "Not reproduced outside its hypotheses." in page
    assert "|F|^2 at the end: 1.5, should be <= 1: **fails**" in page
    assert "corrected (ours): 10^−4, should be <= 10^3: holds" in page
    assert "Read \\*this\\*." in page


def test_a_place_that_cannot_be_written(tmp_path):
    with pytest.raises(AttangentError, match=r"cannot write .*choose another location"):
        write_markdown(make_run(tmp_path, Finding((KEPT,))), tmp_path / "none" / "page.md")


def test_titles_and_places_are_plain_text(tmp_path):
    record = FindingRecord(
        Origin("P2/lemma-1", "<script>x</script> *t*", "# [p](q)", "s", "quick", {}, 0, "c"),
        Finding((BROKEN,)),
        0.1,
        {},
    )
    page = render_markdown(Run(tmp_path, "quick", (record,), (), {}))
    assert "<script>" not in page
    assert "\\<script\\>x\\</script\\> \\*t\\*" in page
    assert "\\# \\[p\\](q)" in page


def test_what_failed_stands_with_its_quote_its_parts_and_its_repair(tmp_path):
    def record(claim, finding, **more):
        return FindingRecord(
            Origin(claim, "Title", "Section 1", "It is so.", "quick", {}, 0, "c", **more), finding, 0.1, {}
        )

    lines = (Conclusion("one", "<=", 1.0, 0.5, part="a"), Conclusion("two", "<=", 1.0, 2.0, part="b"))
    ours = {"kind": "ours", "repairs": "P2/lemma-1", "derivation": "A factor was lost."}
    records = (
        record("P2/lemma-1", Finding(lines), quote="it is so"),
        record("P2/lemma-1-repaired", Finding((KEPT,)), **ours),
        record("P2/lemma-2", Finding((BROKEN,))),
    )
    page = render_markdown(Run(tmp_path, "quick", records, (), {}))
    assert "> it is so" in page
    assert "- Part a: holds\n- Part b: violated" in page
    assert "**As repaired** (P2/lemma-1-repaired, holds): It is so." in page
    assert "A factor was lost." in page
    assert page.count("No repair is known.") == 1
    assert "## Our statements" in page
    assert "- **2 violated**" in page


def test_the_papers_can_be_cited(tmp_path):
    page = render_markdown(make_run(tmp_path, Finding((KEPT,))))
    assert "@misc{P2," in page
    assert "author = {Gu and Li and Liang and Shi and Song}," in page
    assert "url = {https://arxiv.org/abs/2405.03251}," in page


def test_a_run_beside_another_names_what_differs_and_what_decides(tmp_path):
    here = make_run(tmp_path, Finding((KEPT,)), Finding((BROKEN,)), Finding((KEPT,)))
    there = make_run(tmp_path, Finding((KEPT,)), Finding((KEPT,)))
    page = render_markdown(here, there)
    assert "2 claims are in both runs; 1 of them have the same verdict" in page
    assert "Only in this run: P2/lemma-3." in page
    row = next(line for line in page.splitlines() if line.startswith("| P2/lemma-2 | violated | holds |"))
    assert "at the end: 1.5, should be \\<= 1" in row
    assert "Compared with another run" not in render_markdown(here)


def test_numbers_that_differ_are_never_shown_alike(tmp_path):
    barely = Conclusion("barely", "<=", 1e-12, 4.3e-7, log10=True)
    page = render_markdown(make_run(tmp_path, Finding((barely,))))
    assert "barely: 1.000001, should be <= 1: **fails**" in page


def test_a_failure_is_told_with_its_cause_and_its_proof(tmp_path):
    failure = Failure("P2/lemma-1", "used nowhere", "n = 2", root="a factor is missing")
    proof = Proof((Step("Half of one is less than one.", r"\frac12 < 1", True),))
    record = make_record(
        "P2/lemma-1",
        Finding((BROKEN,), proof=proof, refuted=True),
        failure=failure,
        plain="Printed: the sum is one. It is two.",
        ours=("for every n",),
    )
    page = render_markdown(Run(tmp_path, "quick", (record,), (), {}))
    assert "P2: of 1 statement checked, 1 false result (a lemma) from 1 cause." in page
    assert (
        "**a factor is missing**: P2/lemma-1. Printed: the sum is one. It is two. Consequence: used nowhere."
        in page
    )
    assert "1. Half of one is less than one. $`\\frac12 < 1`$" in page
    assert "- First fails at: n = 2" in page
    assert "- Added by us: for every n" in page


def test_cautions_are_printed_for_statements_that_hold(tmp_path):
    held = make_record("P2/lemma-1", Finding((KEPT,), remark="Only for small n."), ours=("for every n",))
    page = render_markdown(Run(tmp_path, "quick", (held,), (), {}))
    assert "- P2/lemma-1 (holds): We added: for every n. Only for small n." in page


KEPT_A = Conclusion("kept", "<=", 1.0, 0.5, part="a")
BROKEN_A = Conclusion("broken", "<=", 1.0, 1.5, part="a")
BROKEN_B = Conclusion("other", "<=", 1.0, 1.5, part="b")


def diffed_run(tmp_path, findings, profile="quick", seeds=(0,)):
    records = tuple(
        FindingRecord(
            Origin(f"P2/{name}", "Title", "Section 1", "s", profile, {}, seed, "c"), finding, 0.1, {}
        )
        for name, finding in findings.items()
        for seed in seeds
    )
    return Run(tmp_path, profile, records, (), {})


def test_equal_runs_do_not_differ(tmp_path):
    run = diffed_run(tmp_path, {"lemma-1": Finding((KEPT_A,)), "lemma-2": Finding((BROKEN_A,))})
    found = compare_runs(run, run)
    assert len(found.pairs) == 2
    assert found.differing == []
    assert found.only_here == found.only_there == ()


def test_another_verdict_and_another_verdict_of_a_part_are_differences(tmp_path):
    here = diffed_run(tmp_path, {"lemma-1": Finding((KEPT_A,)), "lemma-2": Finding((KEPT_A, BROKEN_B))})
    there = diffed_run(tmp_path, {"lemma-1": Finding((BROKEN_A,)), "lemma-2": Finding((BROKEN_A, BROKEN_B))})
    first, second = compare_runs(here, there).differing
    assert first.here.verdict != first.there.verdict
    assert second.here.verdict == second.there.verdict
    assert second.parts == ["a"]


def test_claims_of_one_run_alone_are_named(tmp_path):
    here = diffed_run(tmp_path, {"lemma-1": Finding((KEPT_A,)), "lemma-2": Finding((KEPT_A,))})
    there = diffed_run(tmp_path, {"lemma-2": Finding((KEPT_A,)), "lemma-3": Finding((KEPT_A,))})
    found = compare_runs(here, there)
    assert found.only_here == ("P2/lemma-1",)
    assert found.only_there == ("P2/lemma-3",)


def test_runs_are_named_by_their_profile_and_seeds(tmp_path):
    assert run_name(diffed_run(tmp_path, {"lemma-1": Finding((KEPT_A,))})) == "quick, seed 0"
    full = diffed_run(tmp_path, {"lemma-1": Finding((KEPT_A,))}, "full", (1000, 1002))
    assert run_name(full) == "full, seeds 1000 to 1002"
    assert run_name(diffed_run(tmp_path, {})) == "quick, no seeds"
