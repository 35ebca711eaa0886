"""The commands forecast and evaluate, as a user types them."""

import errno
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent._core.files import only_writer
from attangent.cli.commands import app
from tests.forecast.examples import waves

RUNNER = CliRunner()


@pytest.fixture
def csv(tmp_path):
    frame = pd.DataFrame(waves(400), columns=["load", "price"])
    frame.insert(0, "date", pd.date_range("2024-01-01", periods=400, freq="D"))
    frame.loc[5, "load"] = np.nan
    frame.to_csv(tmp_path / "in.csv", index=False)
    return tmp_path / "in.csv"


def run(*arguments):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


def test_forecast_writes_a_table_and_a_picture(csv):
    out, plot = csv.parent / "out.csv", csv.parent / "out.png"
    done = run("forecast", csv, "--target", "load", "--horizon", 7, "--out", out, "--plot", plot)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(out, parse_dates=["time"])
    assert list(table.columns) == [
        "target",
        "time",
        "forecast",
        "forecast-lo-80",
        "forecast-hi-80",
        "forecast-lo-95",
        "forecast-hi-95",
    ]
    assert table.time.tolist() == list(pd.date_range("2025-02-04", periods=7, freq="D"))
    assert plot.read_bytes().startswith(b"\x89PNG")
    for part in (
        "1 missing values or times of 'load'",
        "by their errors on the past",
        "expect a mean absolute error",
        "for 0.95",
    ):
        assert part in done.output


def test_all_columns_one_level_quietly(csv):
    out = csv.parent / "out.csv"
    done = run(
        "forecast", csv, "--horizon", 3, "--intervals", ".9", "--model", "linear", "--out", out, "--quiet"
    )
    assert done.exit_code == 0
    assert done.output == ""
    assert pd.read_csv(out).target.tolist() == ["load"] * 3 + ["price"] * 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--target", "loud"], "no column 'loud', there are 'date', 'load', 'price'"),
        (["--intervals", "80"], "--intervals is '80'"),
        (["--horizon", "0"], "horizon is 0"),
        (["--period", "0"], "period is 0"),
        (["--out", "nowhere/out.csv"], "there is no folder"),
        (["--date", "when"], "no column 'when'"),
    ],
)
def test_what_cannot_be_used_is_refused(csv, changes, message):
    usual = {"--horizon": "7", "--out": str(csv.parent / "out.csv")} | dict(
        zip(changes[::2], changes[1::2], strict=True)
    )
    done = run("forecast", csv, *(part for pair in usual.items() for part in pair))
    assert isinstance(done.exception, AttangentError)
    assert message in str(done.exception)
    assert not (csv.parent / "out.csv").exists()


def test_help_needs_neither_torch_nor_pandas():
    code = "import sys, attangent.cli.commands; print({'torch', 'pandas', 'sklearn'} & set(sys.modules))"
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout.strip() == "set()"
    )


@pytest.fixture
def many(tmp_path):
    rows = [
        {"shop": shop, "day": day, "sold": 10 + (day.day_of_week == 5) * 5 + k}
        for k, shop in enumerate("abc")
        for day in pd.date_range("2024-01-01", periods=40)
    ]
    pd.DataFrame(rows).to_csv(tmp_path / "many.csv", index=False)
    return tmp_path / "many.csv"


MANY = ("--id", "shop", "--date", "day", "--target", "sold")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_many_series_at_once(many, ending):
    out, report = many.parent / f"out.{ending}", many.parent / "out.html"
    done = run("forecast", many, *MANY, "--horizon", 7, "--out", out, "--report", report)
    assert done.exit_code == 0, done.output
    table = pd.read_parquet(out) if ending == "parquet" else pd.read_csv(out, parse_dates=["day"])
    assert table.shop.tolist() == ["a"] * 7 + ["b"] * 7 + ["c"] * 7
    ends = [f"forecast-{side}-{level}" for level in (80, 95) for side in ("lo", "hi")]
    assert table.columns.tolist()[2:] == ["forecast", *ends, "model"]
    assert table.day.tolist()[:7] == list(pd.date_range("2024-02-10", periods=7))
    assert table.forecast[0] == pytest.approx(15, abs=1)  # a Saturday
    assert "3 series, period 7" in done.output
    assert {p.name for p in many.parent.iterdir()} == {"many.csv", f"out.{ending}", "out.html"}


def test_unique_id_is_taken_for_the_id_without_being_told(many):
    frame = pd.read_csv(many).rename(columns={"shop": "unique_id", "day": "ds", "sold": "y"})
    frame.to_csv(many, index=False)
    out = many.parent / "out.csv"
    assert run("forecast", many, "--horizon", 3, "--out", out, "--quiet").output == ""
    assert len(pd.read_csv(out)) == 9
    done = run("evaluate", many, "--horizon", 5, "--out", many.parent / "table.csv")
    assert done.exit_code == 0, done.output
    assert "best by MASE over 3 series" in done.output
    assert "combination" in pd.read_csv(many.parent / "table.csv").model.tolist()


def test_a_second_forecast_to_one_file_is_refused(many):
    folder = many.parent / ".f.csv.parts"
    folder.mkdir()
    with only_writer(folder):
        done = run("forecast", many, *MANY, "--horizon", 2, "--out", many.parent / "f.csv")
    assert "another forecast is writing" in str(done.exception)


def test_what_a_killed_forecast_left_beside_its_file_goes(many):
    out = many.parent / "f[1].csv"
    left, other = many.parent / ".f[1].csv.abc.partial.csv", many.parent / ".f1.csv.abc.partial.csv"
    left.touch()
    other.touch()
    assert run("forecast", many, *MANY, "--horizon", 2, "--out", out).exit_code == 0
    assert not left.exists()
    assert other.exists()


def test_a_disk_that_is_full_leaves_the_earlier_forecast(many, monkeypatch):
    def half(self, path, **options):
        Path(path).write_text("half")
        raise OSError(errno.ENOSPC, "No space left on device")

    out = many.parent / "f.csv"
    out.write_text("earlier")
    monkeypatch.setattr(pd.DataFrame, "to_csv", half)
    done = run("forecast", many, *MANY, "--horizon", 2, "--out", out)
    assert "No space left on device; free disk space" in str(done.exception)
    assert out.read_text() == "earlier"
    assert not list(many.parent.glob(".*.partial*"))


def test_many_series_are_refused_before_any_work(many):
    for arguments, message in (
        ((*MANY[:-1], "sold", "--target", "more"), "--target names 2 columns, expected one with --id"),
        (("--id", "store"), "no column 'store'"),
    ):
        done = run("forecast", many, *arguments, "--horizon", 3, "--out", many.parent / "out.csv")
        assert isinstance(done.exception, AttangentError)
        assert message in str(done.exception)
    done = run("forecast", many, many, "--horizon", 3, "--out", many.parent / "out.csv")
    assert "2 files were given" in str(done.exception)
    done = run("forecast", many, "--horizon", 3, "--out", many.parent / "out.csv")
    assert "--id shop" in str(done.exception)
    assert [p.name for p in many.parent.iterdir()] == ["many.csv"]


SHORT = """
import sys, numpy as np, pandas as pd
from attangent._core.files import only_writer
from attangent.cli.commands import app
months = pd.date_range("2020-01-01", periods=40, freq="MS")
one = pd.DataFrame({"ds": months, "y": np.arange(40) % 12 + 1.0})
one.to_csv(sys.argv[1], index=False)
pd.concat([one.assign(unique_id=k) for k in range(4)]).to_csv(sys.argv[2], index=False)
for path in sys.argv[1:3]:
    app(["forecast", path, "--horizon", "3", "--out", sys.argv[3]], standalone_mode=False)
print({"torch", "sklearn", "scipy.stats", "matplotlib"} & set(sys.modules))
"""


def test_short_series_wait_for_no_heavy_import(tmp_path):
    paths = [str(tmp_path / name) for name in ("one.csv", "many.csv", "out.csv")]
    done = subprocess.run([sys.executable, "-c", SHORT, *paths], capture_output=True, text=True)
    assert done.stdout.strip().endswith("set()"), done.stdout + done.stderr


def test_a_report_on_a_column_is_written(csv):
    report = csv.parent / "r.html"
    done = run("forecast", csv, "--target", "load", "--horizon", 3, "--model", "seasonal", "--report", report)
    assert done.exit_code == 0, done.output
    assert f"report: {report}" in done.output
    assert "load" in report.read_text()


def test_ids_that_a_spreadsheet_would_run_get_an_apostrophe_in_a_csv_only(many):
    frame = pd.read_csv(many)
    ids = {"a": "=1+1", "b": "-3", "c": "@x"}
    frame.assign(shop=frame.shop.map(ids)).to_csv(many, index=False)
    for ending, expected in (("csv", ["-3", "'=1+1", "'@x"]), ("parquet", ["-3", "=1+1", "@x"])):
        out = many.parent / f"out.{ending}"
        assert (
            run("forecast", many, *MANY, "--horizon", 1, "--model", "seasonal", "--out", out).exit_code == 0
        )
        table = pd.read_parquet(out) if ending == "parquet" else pd.read_csv(out, dtype=str)
        assert sorted(table.shop) == sorted(expected)


def test_three_values_print_no_nan_and_ids_keep_their_zeros(tmp_path):
    days = pd.date_range("2024-01-01", periods=3, freq="D")
    frame = pd.concat([pd.DataFrame({"unique_id": one, "ds": days, "y": [1, 2, 3]}) for one in ("007", "7")])
    frame.to_csv(tmp_path / "few.csv", index=False)
    done = run("forecast", tmp_path / "few.csv", "--horizon", 2, "--out", tmp_path / "out.csv")
    assert done.exit_code == 0, done.output
    assert "nan" not in done.output.replace(str(tmp_path), "")
    assert pd.read_csv(tmp_path / "out.csv", dtype=str)["unique_id"].unique().tolist() == ["007", "7"]


@pytest.mark.parametrize(
    ("options", "message"),
    [(("--covariate", "price"), "--future FILE"), (("--future", "x.csv"), "--covariate")],
)
def test_covariates_and_their_future_go_together(csv, options, message):
    done = run("forecast", csv, "--horizon", 3, *options)
    assert isinstance(done.exception, AttangentError)
    assert message in str(done.exception)
    assert "X_df" not in str(done.exception)


def test_gaps_option_is_passed_on(tmp_path):
    days = pd.date_range("2024-01-01", periods=40, freq="D").delete([5, 9])
    frame = pd.concat([pd.DataFrame({"unique_id": one, "ds": days, "y": 100.0}) for one in "ab"])
    frame.to_csv(tmp_path / "in.csv", index=False)
    for gaps, text in (
        ("zero", "counted as zero"),
        ("interpolate", "interpolated"),
        ("auto", "interpolated"),
    ):
        done = run("forecast", tmp_path / "in.csv", "--horizon", 2, "--gaps", gaps)
        assert text in done.output


def test_totals_fitted_values_and_rounded_numbers(many):
    frame = pd.read_csv(many).assign(region=lambda f: f["shop"].map({"a": "n", "b": "n", "c": "s"}))
    frame.to_csv(many, index=False)
    out, fitted = many.parent / "out.csv", many.parent / "fitted.csv"
    options = ("--hierarchy", "region", "--reconcile", "bottom-up", "--fitted", fitted, "--out", out)
    done = run("forecast", many, *MANY, "--horizon", 7, *options)
    assert done.exit_code == 0, done.output
    wide = pd.read_csv(out).pivot(index="day", columns="shop", values="forecast")
    np.testing.assert_allclose(wide["total/n"], wide["a"] + wide["b"])
    np.testing.assert_allclose(wide["total"], wide["a"] + wide["b"] + wide["c"])
    assert pd.read_csv(fitted).columns.tolist()[-1] == "anomaly"
    printed = run("forecast", many, *MANY, "--horizon", 2).output
    assert "MASE of combination on the past" in printed
    assert max(len(number.partition(".")[2]) for number in re.findall(r"\d+\.\d+", printed)) <= 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--reconcile", "mint"), "needs --hierarchy"),
        (("--contributions", "c.csv"), "needs --covariate or --holidays"),
    ],
)
def test_options_that_would_do_nothing_are_refused(many, options, message):
    done = run("forecast", many, *MANY, "--horizon", 2, *options)
    assert isinstance(done.exception, AttangentError)
    assert message in str(done.exception)


def test_contributions_and_their_baseline_add_up(many):
    frame = pd.read_csv(many, parse_dates=["day"])
    frame["price"] = np.tile(np.arange(40) % 3, 3).astype(float)
    frame["sold"] += 20 * frame["price"]
    frame.to_csv(many, index=False)
    days = pd.date_range("2024-02-10", periods=4)
    ahead = pd.concat([pd.DataFrame({"shop": s, "day": days, "price": [0.0, 2, 0, 1]}) for s in "abc"])
    ahead.to_csv(many.parent / "ahead.csv", index=False)
    out, parts = many.parent / "out.csv", many.parent / "parts.csv"
    options = ("--covariate", "price", "--future", many.parent / "ahead.csv", "--contributions", parts)
    done = run("forecast", many, *MANY, "--horizon", 4, "--out", out, *options)
    assert done.exit_code == 0, done.output
    table = pd.read_csv(parts)
    np.testing.assert_allclose(table["baseline"] + table["price"], pd.read_csv(out)["forecast"])
    assert table["price"].abs().max() > 10


@pytest.mark.parametrize("command", ["forecast", "evaluate"])
def test_times_are_found_in_a_long_table_too(many, command):
    done = run(command, many, "--id", "shop", "--target", "sold", "--horizon", 7)
    assert done.exit_code == 0, done.output
    assert "note: times were read from column 'day'" in done.output


def test_two_columns_of_dates_are_refused_with_the_options(many):
    pd.read_csv(many).assign(delivered="2024-01-03").to_csv(many, index=False)
    done = run("forecast", many, "--id", "shop", "--target", "sold", "--horizon", 7)
    assert "--date day or --date delivered" in str(done.exception)


def test_an_evaluation_uses_the_words_of_the_docs_and_three_digits(many):
    frame = pd.read_csv(many)
    frame["sold"] += np.random.default_rng(0).normal(size=len(frame))
    frame.to_csv(many, index=False)
    done = run("evaluate", many, *MANY, "--horizon", 7)
    for heading in ("MASE", "sMAPE", "weighted quantile loss", "coverage of 80 %", "coverage of 95 %"):
        assert heading in done.output
    assert "wql" not in done.output
    numbers = re.findall(r"\d+\.\d+", done.output)
    assert len(numbers) > 20
    assert all(len(number.replace(".", "").lstrip("0")) <= 3 for number in numbers)


def test_numbers_of_files_have_ten_digits_and_agree_with_parquet(csv):
    tables = {}
    for ending, read in (("csv", pd.read_csv), ("parquet", pd.read_parquet)):
        out = csv.parent / f"out.{ending}"
        assert run("forecast", csv, "--horizon", 3, "--out", out).exit_code == 0
        tables[ending] = read(out)
    texts = pd.read_csv(csv.parent / "out.csv", dtype=str)["forecast"]
    assert max(len(text.replace(".", "").replace("-", "").lstrip("0")) for text in texts) <= 10
    np.testing.assert_allclose(tables["csv"]["forecast"], tables["parquet"]["forecast"], rtol=1e-9)
    assert (tables["csv"]["forecast"] != tables["parquet"]["forecast"]).any()


def test_the_baseline_is_named_in_words(csv):
    output = run("forecast", csv, "--target", "load", "--horizon", 7).output
    assert re.search(r"on the past; repeating the last (value|season): \d", output)


def test_one_series_is_evaluated_without_an_id(csv):
    done = run("evaluate", csv, "--horizon", 3)
    assert done.exit_code == 0, done.output
    assert "best by MASE over" in done.output
    done = run("evaluate", csv, csv, "--horizon", 3)
    assert "2 files were given, expected one, or --id" in str(done.exception)


def test_a_category_is_another_column_than_the_ids(many):
    done = run("forecast", many, *MANY, "--horizon", 3, "--category", "shop")
    assert "--category names the column 'shop', expected another one" in str(done.exception)
    done = run("forecast", many, *MANY, "--horizon", 3, "--category", "kind")
    assert "there is no column 'kind'" in str(done.exception)
    assert "choose one with --category" in str(done.exception)
