"""Pages that commands write, in a real browser, with hostile names in the data: no script runs."""

from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from typer.testing import CliRunner

from attangent.audit.report.page import write_report
from attangent.cli.commands import app
from tests.audit.examples import HOSTILE, showcase
from tests.audit.report.browser import Browser, start

pytestmark = pytest.mark.browser
IMAGE = "<img src=x onerror=document.title='owned'>"
IDS = (HOSTILE, f'" autofocus onfocus="{IMAGE}', "$\\frac{", "=cmd|' /C calc'!A0", "a\u202eb")


@pytest.fixture(scope="module")
def chromium(tmp_path_factory):
    with start(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def assert_harmless(browser: Browser, page: Path) -> None:
    """Open a page and show that nothing in its text became an element, an attribute or a request."""
    browser.requests()
    browser.open(page)
    browser.run("document.querySelectorAll('details').forEach(one => one.open = true)")
    assert "owned" not in browser.run("return document.title")
    handlers = "return [...document.querySelectorAll('*')].filter(one => one.onerror || one.onfocus).length"
    assert browser.run(handlers) == 0
    assert browser.run("return [...document.images].filter(one => !one.src.startsWith('data:')).length") == 0
    assert all(url.startswith(("file:", "about:", "data:")) for url in browser.requests())


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A long table whose file, columns and ids are hostile."""
    days = pd.date_range("2024-01-01", periods=30)
    columns = {f"id{IMAGE}": None, f"time{IMAGE}": days, f"value{IMAGE}": range(30), f"kind{IMAGE}": IMAGE}
    frames = [pd.DataFrame({**columns, f"id{IMAGE}": name}) for name in IDS]
    frames.append(frames[0].head(1).assign(**{f"id{IMAGE}": f"short{IMAGE}"}))  # skipped, with a note
    path = tmp_path_factory.mktemp("tables") / f"{IMAGE}.csv"
    pd.concat(frames).to_csv(path, index=False)
    return path


def test_a_forecast_report_runs_nothing(chromium, table):
    report = table.parent / f"{IMAGE}.html"
    names = ("--id", f"id{IMAGE}", "--date", f"time{IMAGE}", "--target", f"value{IMAGE}")
    words = ("forecast", str(table), *names, "--horizon", "2", "--category", f"kind{IMAGE}")
    written = (
        "--report",
        str(report),
        "--plot",
        str(table.parent / "p.png"),
        "--out",
        str(table.parent / "f.csv"),
    )
    done = CliRunner().invoke(app, [*words, *written])
    assert done.exit_code == 0, (done.output, done.exception)
    assert_harmless(chromium, report)
    cells = pd.read_csv(table.parent / "f.csv", dtype=str)[f"id{IMAGE}"]
    assert "'" + IDS[3] in set(cells)


def test_a_report_on_columns_runs_nothing(chromium, tmp_path):
    days = pd.date_range("2024-01-01", periods=30)
    pd.DataFrame({"date": days, IMAGE: range(30), "$\\frac{": range(30)}).to_csv(
        tmp_path / "t.csv", index=False
    )
    report = tmp_path / "r.html"
    done = CliRunner().invoke(
        app, ["forecast", str(tmp_path / "t.csv"), "--horizon", "2", "--report", str(report)]
    )
    assert done.exit_code == 0, (done.output, done.exception)
    assert_harmless(chromium, report)


def test_an_audit_report_in_a_hostile_folder_runs_nothing(chromium, tmp_path):
    run = replace(showcase(), folder=tmp_path / IMAGE)
    (tmp_path / IMAGE).mkdir()
    assert_harmless(chromium, write_report(run, tmp_path / IMAGE / "report.html"))
