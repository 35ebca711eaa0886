import dataclasses
import json
from importlib.metadata import version

import pytest
import torch

from benchmarks import __main__ as program
from benchmarks.harness.benchmark import FULL, QUICK, Benchmark, Contestant, Goal, run
from benchmarks.harness.discover import discover
from benchmarks.harness.measure import Effort

SMALL, LARGE = {"n": 1}, {"n": 2}


def toy(name, build=lambda size: lambda: torch.ones(1), **more):
    return Benchmark(name, "A toy.", [SMALL, LARGE], [Contestant("base", build)], "base", **more)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "benchmarks" / "results").mkdir(parents=True)
    (tmp_path / "docs").mkdir()
    return tmp_path


@pytest.fixture
def known(monkeypatch):
    """Toys in place of the real benchmarks, measured in one short round and without a child process."""
    found = {"one": toy("one", goals=[Goal("base", "base", LARGE, 1.0)]), "two": toy("two")}

    def short_run(benchmark, effort, instruments):
        object.__setattr__(instruments, "peak", lambda *_: 1024)
        return run(benchmark, Effort(1, 1e-6), instruments)

    monkeypatch.setattr(program, "discover", lambda: found)
    monkeypatch.setattr(program, "run", short_run)
    return found


def results(root):
    return json.loads((root / "benchmarks" / "results" / "results.json").read_text())


def test_all_benchmarks_run_and_are_written(known, root, capsys):
    assert program.main([], root) == 0
    assert [(row["name"], row["size"]["n"]) for row in results(root)["rows"]] == [
        ("one", 1),
        ("one", 2),
        ("two", 1),
        ("two", 2),
    ]
    assert results(root)["goals"][0]["measured"] == 1.0
    page = (root / "docs" / "benchmarks.md").read_text()
    assert page.index("## one") < page.index("## two")
    assert "| n=1 | base | 1 |" in capsys.readouterr().out


def test_more_rounds_may_take_longer_and_fewer_no_less():
    assert program.full_effort(3 * FULL.rounds, 1e9).enough_seconds == 3 * FULL.enough_seconds
    assert program.full_effort(1, 1e9).enough_seconds == FULL.enough_seconds
    assert program.full_effort(1, 2.0).enough_seconds == 2.0


def test_the_minutes_are_shared_by_all_sizes(known, root, monkeypatch):
    asked = []
    monkeypatch.setattr(
        program, "_measured", lambda benchmark, effort: asked.append(effort.enough_seconds) or []
    )
    monkeypatch.setattr(program, "merge", lambda *_: {"about": {}, "rows": [], "goals": []})
    program.main(["--minutes", "0.1"], root)
    assert asked == pytest.approx([0.75, 1.5], rel=0.1)  # the first has left its share to the second


def test_what_one_benchmark_takes_too_long_the_others_give_up():
    now = [0.0]
    budget = program.Budget(100.0, 5, clock=lambda: now[0])
    assert budget.share(1) == 10.0
    now[0] = 60.0
    assert budget.share(2) == 5.0
    now[0] = 200.0
    assert budget.share(2) == 0.0


def test_results_can_be_kept_as_those_of_a_release(known, root, capsys):
    program.main([], root)
    assert program.main(["--release"], root) == 0
    kept = json.loads((root / "benchmarks/results/released.json").read_text())
    assert kept["version"] == version("attangent")
    assert [row["ratio"] for row in kept["rows"]] == [row["ratio"] for row in results(root)["rows"]]
    program.main(["--only", "one"], root)
    assert f"## Changes since {kept['version']}" in (root / "docs/benchmarks.md").read_text()


def test_a_benchmark_may_ask_for_more_rounds(known, root, monkeypatch):
    asked = []
    known["one"] = dataclasses.replace(known["one"], rounds=20)
    monkeypatch.setattr(program, "_measured", lambda benchmark, effort: asked.append(effort.rounds) or [])
    program.main([], root)
    program.main(["--quick", "--only", "one"], root)
    assert asked == [20, FULL.rounds, QUICK.rounds]


def test_only_replaces_the_rows_of_that_benchmark(known, root):
    program.main([], root)
    file = root / "benchmarks" / "results" / "results.json"
    file.write_text(file.read_text().replace('"peak_bytes": 1024', '"peak_bytes": 7'))
    assert program.main(["--only", "two"], root) == 0
    assert [row["peak_bytes"] for row in results(root)["rows"]] == [7, 7, 1024, 1024]
    assert "7 KiB" not in (root / "docs" / "benchmarks.md").read_text()


def test_a_quick_look_prints_the_smallest_size_and_writes_nothing(known, root, capsys):
    assert program.main(["--quick", "--only", "one"], root) == 0
    printed = capsys.readouterr().out
    assert "n=1" in printed
    assert "n=2" not in printed
    assert not (root / "benchmarks" / "results" / "results.json").exists()


def test_an_unknown_name_gets_one_line_with_the_valid_ones(known, root, capsys):
    assert program.main(["--only", "three"], root) == 2
    assert capsys.readouterr().err == "error: there is no benchmark 'three', expected one of one, two\n"


def test_a_damaged_results_file_is_refused_before_anything_is_measured(known, root, capsys):
    (root / "benchmarks" / "results" / "results.json").write_text("{")
    assert program.main([], root) == 2
    captured = capsys.readouterr()
    assert "is not a file of benchmark results: restore or delete it" in captured.err
    assert captured.out == ""


def broken(size):
    raise ZeroDivisionError("a bug")


@pytest.mark.parametrize(
    ("culprit", "said"),
    [
        (
            toy("one", reference=lambda size: torch.zeros(1) + 2),
            "failed: base in benchmark one at n=1 is 0.5 off",
        ),
        (toy("one", broken), "ZeroDivisionError: a bug"),
    ],
)
def test_a_benchmark_that_fails_does_not_stop_the_others(known, root, capsys, culprit, said):
    known["one"] = culprit
    assert program.main([], root) == 1
    assert said in capsys.readouterr().err
    assert {row["name"] for row in results(root)["rows"]} == {"two"}


def test_stopping_keeps_what_was_finished(known, root, capsys):
    def interrupt(size):
        raise KeyboardInterrupt

    known["two"] = toy("two", interrupt)
    assert program.main([], root) == 130
    assert capsys.readouterr().err == "stopped; benchmarks that were finished are kept\n"
    assert {row["name"] for row in results(root)["rows"]} == {"one"}


def test_every_module_of_benchmarks_is_found_under_its_name():
    found = discover()
    assert "kernel" in found
    assert all(name == benchmark.name for name, benchmark in found.items())
