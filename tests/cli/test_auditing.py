import json
import sys

import pytest
from typer.testing import CliRunner

from attangent import cli
from attangent.audit import registry
from tests.audit.fakes import crashing, make_claim


@pytest.fixture
def claims(monkeypatch):
    mine = {
        claim.id: claim
        for claim in (make_claim("P1/lemma-1"), make_claim("P1/lemma-2"), make_claim("P2/lemma-3", crashing))
    }
    monkeypatch.setattr(registry, "_claims", mine)
    monkeypatch.setattr(registry, "_paper_names", lambda: sorted({claim.paper for claim in mine.values()}))
    monkeypatch.setattr(registry, "_load_paper", lambda paper: None)


@pytest.fixture
def invoke(claims, tmp_path, monkeypatch):
    """Runs the command as `main` does; gives exit code, output and errors."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["attangent", *arguments])
        runner = CliRunner()
        with runner.isolation() as (out, err, _):
            try:
                cli.main()
                code = 0
            except SystemExit as exit:
                code = exit.code
            return code, out.getvalue().decode(), err.getvalue().decode()

    return call


def test_audit_prints_a_table_and_writes_the_report(invoke, tmp_path):
    code, output, _ = invoke("audit", "P1/*", "--jobs", "1")
    assert code == 0
    assert "P1/lemma-1" in output
    assert "2 holds" in output
    assert "report: audit-quick/report.html" in output
    assert (tmp_path / "audit-quick" / "report.html").read_text().startswith("<!doctype html>")


def test_json_is_for_machines(invoke):
    code, output, _ = invoke("audit", "P1/lemma-1", "--jobs", "1", "--json", "--out", "r")
    assert code == 0
    shown = json.loads(output)
    assert [result["verdict"] for result in shown["results"]] == ["holds"]
    assert shown["profile"] == "quick"


def test_list(invoke):
    code, output, _ = invoke("audit", "--list", "--json")
    assert code == 0
    assert [row["id"] for row in json.loads(output)] == ["P1/lemma-1", "P1/lemma-2", "P2/lemma-3"]
    assert json.loads(output)[0]["settings"]["full"]["n"] == 400
    code, output, _ = invoke("audit", "--list", "--paper", "P2")
    assert "P2/theorem-4.2" in output
    assert "P1/" not in output


def test_a_crash_gives_exit_code_one_and_names_the_claim(invoke):
    code, _, errors = invoke("audit", "--jobs", "1", "--quiet")
    assert code == 1
    assert "crashed: P2/lemma-3 seed 1: RuntimeError: seed one is bad luck" in errors


def test_quiet_prints_nothing(invoke):
    assert invoke("audit", "P1/lemma-1", "--jobs", "1", "--quiet") == (0, "", "")


def test_report_again(invoke):
    invoke("audit", "P1/lemma-1", "--jobs", "1", "--quiet", "--out", "r")
    code, output, _ = invoke("report", "r", "--out", "elsewhere.html")
    assert (code, output) == (0, "report: elsewhere.html\nnext: open elsewhere.html in a browser\n")


def test_a_page_beside_another_run(invoke, tmp_path):
    invoke("audit", "P1/*", "--jobs", "1", "--quiet", "--out", "here")
    invoke("audit", "P1/lemma-1", "--jobs", "1", "--quiet", "--out", "there", "--first-seed", "7")
    code, output, _ = invoke("report", "here", "--out", "page.md", "--against", "there")
    assert code == 0
    assert "report: page.md" in output
    page = (tmp_path / "page.md").read_text()
    assert "Compared with another run (quick, seeds 7 to 8)" in page
    assert "Only in this run: P1/lemma-2." in page


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "P1/lema-1"], "did you mean P1/lemma-1"),
        (["audit", "--paper", "P9"], "unknown paper 'P9'; expected one of P1, P2"),
        (["audit", "--seeds", "0"], "seeds must be between 1 and 100,000"),
        (["audit", "--out", "/proc/none/here"], "cannot create the folder /proc/none/here"),
        (["report", "nowhere"], "nowhere holds no audit run"),
        (["audit", "--first-seed", "-1"], "first_seed must be at least 0"),
        (["report", "r", "--out", "page.html", "--against", "s"], "--against needs a Markdown page"),
        (["report", "r", "--out", "page.csv", "--figures", "f"], "--figures needs a Markdown page"),
    ],
)
def test_what_a_user_got_wrong_is_one_line(invoke, arguments, message):
    code, output, errors = invoke(*arguments)
    assert code == 2
    assert output == ""
    assert message in errors
    assert errors.count("\n") == 1


def test_a_report_of_another_kind_is_refused(invoke, tmp_path):
    invoke("audit", "P1/lemma-1", "--jobs", "1", "--quiet", "--out", "r")
    code, _, said = invoke("report", "r", "--out", "page.pdf")
    assert code == 2
    assert "expected a name ending in .html, .md or .csv" in said
    assert not (tmp_path / "page.pdf").exists()
    code, output, _ = invoke("report", "r", "--json")
    assert code == 0
    assert json.loads(output) == {"report": "r/report.html", "passed_over": {}}


def test_a_profile_is_one_of_two(invoke):
    code, _, errors = invoke("audit", "--profile", "fast")
    assert code == 2
    assert "quick" in errors


def test_new_claims_writes_a_package_and_its_old_name_warns(invoke, tmp_path):
    code, output, _ = invoke("new-claims", "MyPaper", "--out", "mine", "--json")
    assert code == 0
    assert json.loads(output) == {"folder": "mine"}
    assert (tmp_path / "mine" / "my_paper_claims" / "section_1.py").is_file()
    with pytest.warns(FutureWarning, match="use `attangent new-claims`"):
        code, output, _ = invoke("audit", "new", "MyPaper", "--out", "again")
    assert code == 0
    assert output.startswith("package of claims: again")
