"""The pieces of a chaos run, and their reports in one."""

import argparse
import json

import pytest
from chaos.fuzz import Ended
from chaos.outcomes import ANSWERED, HANG
from chaos.pieces import MISSED, pieces_of, run_all
from chaos.report import Report

from chaos import pieces

EVERY = ["files", "commands", "kills", "deaths", "disk", "compiled"]


def options(folder, **changes):
    given = {"parts": EVERY, "inputs": 1500, "first": 0, "kills": 10, "of": ["audit", "tune"], "seed": 4}
    return argparse.Namespace(**{**given, "jobs": 2, "go_on": False, "out": folder, **changes})


def test_every_input_is_in_one_piece(tmp_path):
    found = pieces_of(options(tmp_path, first=50))
    ranges = [one.arguments for one in found if one.arguments[0] == "files"]
    cases = [case for one in ranges for case in range(int(one[4]), int(one[4]) + int(one[2]))]
    assert cases == list(range(50, 1550))
    assert {one.arguments[0] for one in found} == set(EVERY)
    assert [one.name for one in found[:2]] == ["kills-audit", "kills-tune"]
    assert len({one.name for one in found}) == len(found)


def test_other_fuzzers_follow_in_proportion(tmp_path):
    found = {one.name: one.arguments[2] for one in pieces_of(options(tmp_path, inputs=150, parts=EVERY[:2]))}
    assert found == {"files": "150", "commands": "60"}


@pytest.fixture
def ran(monkeypatch):
    """Pieces that end at once, with exit codes by name."""
    codes: dict[str, int] = {}
    runs = []

    def run(command, **given):
        folder = command[-1]
        name = folder.rpartition("/")[2]
        runs.append(name)
        report = Report(4)
        if name.startswith("files"):
            report.count("files", Ended(0, "f", [], HANG if codes.get(name) else ANSWERED))
        else:
            report.add(name, not codes.get(name))
        report.seconds[name] = 1.0
        with open(f"{folder}/chaos.json", "w") as file:
            json.dump(report.content(), file)
        return argparse.Namespace(returncode=codes.get(name, 0))

    monkeypatch.setattr(pieces.subprocess, "run", run)
    return codes, runs


def test_reports_are_added_up(ran, tmp_path):
    asked = options(tmp_path, inputs=750, parts=["files", "deaths"])
    report = run_all(pieces_of(asked), asked)
    assert report.passed
    assert report.counts["files"] == {ANSWERED: 2}
    assert report.done["deaths"] == [{"well": True}]
    assert json.loads((tmp_path / "chaos.json").read_text())["passed"]


@pytest.mark.parametrize(("code", "found"), [(MISSED, "1 hang"), (1, "exit code 1"), (-9, "exit code -9")])
def test_a_piece_that_missed_a_bar_or_crashed_fails_the_run(ran, tmp_path, code, found):
    ran[0]["files"] = code
    asked = options(tmp_path, inputs=100, parts=["files"])
    report = run_all(pieces_of(asked), asked)
    assert not report.passed
    assert found in report.table()
    assert report.met == {"files": False}


def test_going_on_keeps_what_was_finished_with_the_same_arguments(ran, tmp_path):
    codes, runs = ran
    codes["deaths"] = 1
    asked = options(tmp_path, inputs=100, parts=["files", "deaths"])
    run_all(pieces_of(asked), asked)
    codes["deaths"] = 0
    report = run_all(pieces_of(asked), options(tmp_path, parts=asked.parts, go_on=True))
    assert report.passed
    assert sorted(runs) == ["deaths", "deaths", "files"]
    other = options(tmp_path, inputs=200, parts=["files"], go_on=True)
    run_all(pieces_of(other), other)
    assert sorted(runs) == ["deaths", "deaths", "files", "files"]


def test_nothing_that_was_run_is_no_success():
    assert not Report(0).passed
