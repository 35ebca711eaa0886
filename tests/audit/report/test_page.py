import math
import re
import shlex
from html.parser import HTMLParser
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.audit import Conclusion, Failure, Finding, Hypothesis, Proof, Step
from attangent.audit.report.page import render, write_report
from tests.audit.examples import HOSTILE, TRACEBACK, bounded, curves, make_record, make_run, showcase

VOID = {"meta", "link", "input", "img", "br", "hr"}


class Page(HTMLParser):
    """The text of each element with an id, all tags and all ids; refuses tags that do not match."""

    def __init__(self, html: str):
        super().__init__()
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text_of: dict[str, str] = {}
        self._open: list[tuple[str, str | None]] = []
        self.feed(html)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]
        id = dict(attrs).get("id")
        if id is not None:
            self.ids.append(id)
            self.text_of[id] = ""
        if tag not in VOID:
            self._open.append((tag, id))

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self._open.pop()[0] == tag
        if tag in ("th", "td", "dt"):
            self.handle_data(" ")

    def handle_data(self, data):
        for _, id in self._open:
            if id is not None:
                self.text_of[id] += data

    def claim(self, id: str) -> str:
        """The text of a claim's section, white space made even."""
        return " ".join(self.text_of[id].split())


def shown(*findings: Finding, claim: str = "P2/lemma-1", **origin) -> str:
    """The text about one claim whose seeds found `findings`."""
    records = [make_record(claim, finding, seed, **origin) for seed, finding in enumerate(findings)]
    return Page(render(make_run(*records))).claim(claim)


def test_a_page_is_well_formed_with_unique_ids_and_equal_for_equal_runs():
    html = render(showcase())
    page = Page(html)
    assert len(page.ids) == len(set(page.ids))
    assert render(showcase()) == html


def test_nothing_in_the_page_asks_for_anything_outside():
    page = Page(render(showcase()))
    outside = [(name, value) for name, value in page.attributes if name in ("src", "href", "action", "data")]
    cited = ("https://arxiv.org/abs/", "https://openreview.net/forum?id=")  # for readers who follow them
    assert all(value.startswith(("#", "data:", *cited)) for _, value in outside)
    assert "url(" not in re.sub(r"url\(#", "", render(showcase()))
    policy = next(value for _, value in page.attributes if "default-src" in value)
    assert policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-")


def test_totals_count_claims_by_verdict():
    html = render(showcase())
    counts = re.findall(r'data-verdict="([\w ]+)"><span class="count">(\d+)</span>', html)
    assert {verdict: int(count) for verdict, count in counts} == {
        "holds": 2,
        "measured": 1,
        "violated": 1,
        "not reproduced": 2,
        "smaller setting": 0,
        "open": 1,
    }


def test_a_claim_shows_its_words_its_place_and_its_command():
    text = shown(bounded(0.5))
    for part in ("Title of P2/lemma-1", "Section 3, Lemma 3.1", "The statement of P2/lemma-1 in our words."):
        assert part in text
    assert "attangent audit P2/lemma-1 --profile quick --force" in text
    assert "n 8" in text
    assert "rate 0.5" in text
    assert "1.5 s for 1 seed" in text


def test_holds():
    text = shown(bounded(0.5, hypotheses=(Hypothesis("width", ">=", 64, 128),)))
    assert "Holds: Its hypothesis was met; its conclusion holds." in text
    assert "width ≥ 64 128 ✓ met" in text
    assert "error ≤ 1 0.5 ✓ holds" in text


def test_measured_outside_its_hypotheses():
    hypotheses = (
        Hypothesis("width", ">=", 198.5, 3.3, log10=True),
        Hypothesis("rate", "<=", 1e-4, 1e-2),
        Hypothesis("points", "<=", 9, 8),
        Hypothesis("sign", ">=", 1.0, -1.0),
        Hypothesis("norm", "<=", 1.0, math.inf),
    )
    text = shown(bounded(0.5, hypotheses=hypotheses))
    assert "Measured to hold: 4 of 5 hypotheses were not met; its conclusion holds." in text
    assert "width ≥ 10^198.5 10^3.3 ✗ missed by 10^195.2" in text
    assert "rate ≤ 10⁻⁴ 0.01 ✗ missed by 10^2" in text
    assert "sign ≥ 1 −1 ✗ not met" in text
    assert "norm ≤ 1 ∞ ✗ not met" in text


def test_violated_says_whether_the_hypotheses_were_met():
    outside = shown(bounded(3.0, hypotheses=(Hypothesis("rate", "<=", 0.1, 0.5),)))
    assert "Not reproduced outside its hypotheses: “error” should be ≤ 1; measured 3." in outside
    inside = shown(bounded(3.0, hypotheses=(Hypothesis("rate", "<=", 0.5, 0.1),)))
    assert "Violated with its hypotheses met: “error” should be ≤ 1; measured 3." in inside


def test_a_counter_example_within_the_hypotheses_is_the_one_shown():
    far = bounded(3.0, hypotheses=(Hypothesis("rate", "<=", 0.1, 0.5),))
    near = bounded(2.0, hypotheses=(Hypothesis("rate", "<=", 0.5, 0.1),))
    text = shown(bounded(0.5), far, near)
    assert "Violated with its hypotheses met: “error” should be ≤ 1; measured 2." in text
    assert "The values are those of seed 2" in text
    assert "✗ fails 1 of 3" in text


def test_a_violation_names_its_first_step_and_a_small_excess():
    conclusions = (
        Conclusion("loss", "<=", 1.0, 1.0 + 1e-9, first_violation=17),
        Conclusion("tail", "<=", 30.0, 31.0, log10=True),
        Conclusion("close", "<=", 4000.0, 4000.01, log10=True),
    )
    text = shown(Finding(conclusions))
    assert "“loss” should be ≤ 1; measured 1.000000001, first at step 17." in text
    assert "loss ≤ 1 1.000000001 ✗ fails first at step 17" in text
    assert "tail ≤ 10^30 10^31 ✗ fails" in text
    assert "close ≤ 10^4000 10^4000.01 ✗ fails" in text


def test_open():
    text = shown(bounded(math.nan, math.inf))
    assert "Open: “error” could not be measured." in text
    assert "error ≤ ∞ not a number ? undecided" in text


def test_our_own_lines_are_marked():
    ours = Conclusion("with a factor 4", "==", 1.0, 2.0, claimed=False)
    text = shown(Finding((Conclusion("printed", "<=", 1.0, 0.5), ours)))
    assert "with a factor 4 ours = 1 2 ✗ fails" in text
    assert "ours marks our corrections and comparisons" in text
    assert "These lines do not decide the verdict." in text
    assert "ours marks" not in shown(bounded(0.5))


def test_numbers_come_with_their_spread():
    odd = (math.inf, 1.0, math.nan)
    findings = [bounded(0.5, numbers={"slope": 1.0 + n, "same": 2.0, "odd": odd[n]}) for n in range(3)]
    text = shown(*findings)
    assert "slope 2 ± 1 1 … 3" in text
    assert "same 2 odd" in text
    assert "odd ∞, 1, not a number" in text
    assert "slope 1" in shown(findings[0])


def test_exact_values_stay_in_the_page():
    assert '<data value="0.12345678901234" title="0.12345678901234">0.1235</data>' in render(
        make_run(make_record("P2/lemma-1", bounded(0.12345678901234)))
    )


def test_seeds_are_listed_with_their_verdicts_and_crashes():
    records = [make_record("P2/lemma-1", bounded(value), seed) for seed, value in enumerate((0.5, 2.0))]
    failure = {"claim": "P2/lemma-1", "seed": 2, "traceback": TRACEBACK}
    page = Page(render(make_run(*records, failures=[failure])))
    assert "Seeds 0 ✓holds 1 ✗violated 2 !crashed" in page.claim("P2/lemma-1")
    troubles = " ".join(page.text_of["troubles"].split())
    assert "1 check crashed." in troubles
    assert "RuntimeError: <b>bad</b> luck" in troubles


def test_files_that_could_not_be_trusted_are_named():
    problems = {
        Path("runs/audit-quick/findings/odd.json"): "it is not a finding",
        Path("else/x.npz"): "foreign",
    }
    page = Page(render(make_run(problems=problems)))
    troubles = " ".join(page.text_of["troubles"].split())
    assert "2 files could not be trusted" in troubles
    assert "findings/odd.json: it is not a finding" in troubles
    assert "x.npz: foreign" in troubles


def test_an_empty_run_still_has_a_page():
    page = Page(render(make_run()))
    assert "This run holds no finding yet." in page.text_of["claims"]
    assert "troubles" not in page.ids


def test_figures_name_their_axes_series_and_seeds():
    text = shown(*(bounded(0.5, figures=(curves(seed),)) for seed in range(3)))
    assert "Loss ↑ loss" in text
    assert "step → trained bound predicted Strong lines: seed 0. Faint lines: seeds 1, 2." in text


def test_figures_of_other_seeds_are_matched_by_title():
    findings = [bounded(0.5, figures=figures) for figures in ((curves(0),), (curves(1, "Another"),), ())]
    records = [make_record("P2/lemma-1", finding, seed) for seed, finding in enumerate(findings)]
    assert "stroke-opacity: 0.3" not in render(make_run(*records))


def test_hostile_text_stays_text():
    page = Page(render(showcase()))
    assert page.tags.count("script") == 1
    assert page.tags.count("style") == 1
    assert "img" not in page.tags
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.claim("P3/table-9").count(HOSTILE) >= 9


def test_a_hostile_id_is_quoted_in_the_command():
    claim = "P1/x'; rm -rf ~ #"
    text = shown(bounded(0.5), claim=claim)
    command = re.search(r"attangent audit .*--force", text)
    assert command is not None
    assert shlex.split(command[0]) == ["attangent", "audit", claim, "--profile", "quick", "--force"]


def test_versions_stand_at_the_foot():
    html = render(showcase())
    assert "python 3.13.1" in html
    assert "torch 2.13.0" in html


def test_the_report_is_written_beside_the_findings_or_where_asked(tmp_path):
    run = make_run(make_record("P2/lemma-1", bounded(0.5, remark="odd \ud800 letter")))
    there = write_report(run, tmp_path / "page.html")
    assert there.read_text(encoding="utf-8").startswith("<!doctype html>")
    moved = type(run)(tmp_path, run.profile, run.records, run.failures, run.problems)
    assert write_report(moved) == tmp_path / "report.html"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["page.html", "report.html"]


def test_a_place_that_cannot_be_written_is_refused_in_one_line(tmp_path):
    with pytest.raises(AttangentError, match=r"cannot write .*missing.*choose another location") as error:
        write_report(make_run(), tmp_path / "missing" / "page.html")
    assert "\n" not in str(error.value)


def test_formulas_are_set_as_such_and_can_be_searched_as_written():
    record = make_record("P2/lemma-1", bounded(0.5), statement="|F - Y|^2 <= lambda_min")
    html = render(make_run(record))
    assert '|F − Y|<sup><span class="caret">^</span>2</sup> ≤ λ<sub>min</sub>' in html
    assert "|F - Y|^2 &lt;= lambda_min" in html


def test_a_quote_stands_beside_our_words():
    text = shown(bounded(0.5), quote="the error is at most one")
    assert "the error is at most one Section 3, Lemma 3.1 The statement of P2/lemma-1 in our words." in text


def test_hypotheses_are_listed_or_none_stated():
    assert "The check declares no hypotheses." in shown(bounded(0.5))
    assert "The statement has no hypotheses." in shown(bounded(0.5), unconditional=True)
    assert "has no hypotheses" not in shown(bounded(0.5, hypotheses=(Hypothesis("rate", "<=", 1.0, 0.5),)))


def test_parts_thresholds_trends_and_slack_are_marked():
    finding = Finding(
        conclusions=(
            Conclusion("first", "<=", 1.0, 0.5, part="a"),
            Conclusion("second", "<=", 1.0, 2.0, part="b"),
            Conclusion("bound", "<=", 237.0, 0.0, log10=True, part="a"),
            Conclusion("small", "<=", 0.1, 0.5, threshold="ours"),
            Conclusion.of_trend("growth", "<=", 0.0, [1, 2, 4, 8], [8, 4, 2, 1], part="a"),
        ),
        differs=("two layers",),
    )
    text = shown(finding)
    assert "Part a ≈measured Part b ≠not reproduced" in text
    assert "bound part a ≤ 10^237 10^0 ✓ holds by 237 decades: cannot fail at this size" in text
    assert "small threshold ours" in text
    assert "growth part a exponent over 4 sizes" in text
    assert "Differences from the paper: two layers." in text


def test_a_repaired_statement_stands_under_the_printed_one():
    printed = make_record("P2/lemma-1", bounded(2.0))
    other = make_record("P2/lemma-2", bounded(3.0))
    repair = make_record(
        "P2/lemma-1-repaired",
        bounded(0.5),
        kind="ours",
        repairs="P2/lemma-1",
        derivation="A factor was lost.",
    )
    page = Page(render(make_run(printed, other, repair)))
    text = page.claim("P2/lemma-1")
    assert "As printed The statement of P2/lemma-1" in text
    assert "As repaired ✓holds P2/lemma-1-repaired The statement of P2/lemma-1-repaired" in text
    assert "A factor was lost." in text
    assert "No repair is known." in page.claim("P2/lemma-2")


def test_statements_of_ours_stand_apart_and_are_not_counted():
    html = render(
        make_run(make_record("P2/lemma-1", bounded(0.5)), make_record("P2/x", bounded(0.5), kind="ours"))
    )
    assert dict(re.findall(r'data-verdict="([\w ]+)"><span class="count">(\d+)</span>', html))["holds"] == "1"
    assert html.index("Our statements") > html.index('id="P2/lemma-1"')
    assert html.index("Our statements") < html.index('id="P2/x"')


def test_a_check_that_crashed_is_a_claim_of_the_page():
    page = Page(render(make_run(failures=[{"claim": "P2/lemma-1", "seed": 0, "traceback": TRACEBACK}])))
    text = page.claim("P2/lemma-1")
    assert "Crashed: The check raised an error: RuntimeError: <b>bad</b> luck" in text


def test_a_failed_claim_shows_cause_consequence_size_and_proof_before_its_numbers():
    failure = Failure("P2/lemma-1", "Theorem 2 falls", "n = 2", root="a factor is missing")
    proof = Proof((Step("Half of one is less than one.", r"\frac12 < 1", True),))
    finding = bounded(2.0, proof=proof, refuted=True, remark="A remark.")
    html = render(
        make_run(make_record("P2/lemma-1", finding, failure=failure, plain="It fails by a factor."))
    )
    text = html[html.index('class="claim') :]
    order = [
        "It fails by a factor.",
        "a factor is missing",
        "Theorem 2 falls",
        "n = 2",
        "<mfrac>",
        "<h4>Conclusions",
    ]
    places = [text.index(part) for part in order]
    assert places == sorted(places)
    assert "What falls" in html
    assert "1 false result (a lemma) from 1 cause" in html


def test_a_claim_declared_to_fail_that_holds_says_so():
    failure = Failure("P2/lemma-1", "used nowhere", "n = 2", root="a factor is missing")
    assert "declared to fail, but this run does not show it" in shown(bounded(0.5), failure=failure)
