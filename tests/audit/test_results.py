"""One rule says what decides a verdict, and every output asks it."""

import json
from pathlib import Path

import pytest

from attangent import AttangentError
from attangent.audit import Conclusion, Finding, Hypothesis, Verdict, load
from attangent.audit.report.markdown import render_markdown
from attangent.audit.report.page import render
from attangent.cli.auditing import _print_run
from tests.audit.examples import make_record, make_run

MISSED, MET = Hypothesis("width", ">=", 64, 8), Hypothesis("width", ">=", 64, 256)


def counter_example(hypothesis: Hypothesis, measured: float) -> Finding:
    return Finding(
        conclusions=(
            Conclusion("a comparison of ours", "<=", 9.0, 7.5, claimed=False),
            Conclusion("kept", "<=", 1.0, 0.5),
            Conclusion("error", "<=", 1.0, measured),
        ),
        hypotheses=(hypothesis,),
    )


def outputs(run, capsys):
    """What each output says of the line that decides."""
    _print_run(run, run.folder)
    first = run.as_json()["results"][0]
    return {
        "cli": capsys.readouterr().out,
        "markdown": render_markdown(run),
        "html": render(run),
        "json": json.dumps(first["conclusions"]) + json.dumps(first["hypotheses"]),
    }


def test_of_two_counter_examples_all_outputs_show_the_one_within_the_hypotheses(capsys):
    run = make_run(
        make_record("P2/lemma-1", counter_example(MISSED, 3.25), seed=0),
        make_record("P2/lemma-1", counter_example(MET, 2.75), seed=1),
    )
    (result,) = run.results()
    assert result.deciding.origin.seed == 1
    for name, text in outputs(run, capsys).items():
        assert "2.75" in text, name
        assert "3.25" not in text, name
    assert "Violated with its hypotheses met" in render(run)
    assert "Violated with its hypotheses met" in render_markdown(run)


def test_a_line_of_ours_that_stands_first_is_not_shown_as_what_decides(capsys):
    run = make_run(make_record("P2/lemma-1", counter_example(MET, 0.25)))
    _print_run(run, run.folder)
    assert "kept" in capsys.readouterr().out
    assert "| P2/lemma-1 | lemma | holds |  | kept | 0.5 |" in render_markdown(run)


def test_frame_json_and_result_agree_on_the_verdict():
    run = make_run(make_record("P2/lemma-1", counter_example(MET, 2.0)))
    assert run.results()[0].verdict is Verdict.VIOLATED
    assert set(run.frame()["verdict"]) == {"violated"}
    assert run.as_json()["results"][0]["verdict"] == "violated"


def test_trends_and_crashes_are_json():
    trend = Conclusion.of_trend("t", "<=", 0.0, [1, 2, 4, 8], [8, 4, 2, 1])
    failure = {"claim": "P2/lemma-2", "seed": 0, "traceback": "ValueError: no"}
    run = make_run(make_record("P2/lemma-1", Finding((trend,))), failures=[failure])
    first, second = json.loads(json.dumps(run.as_json(), allow_nan=False))["results"]
    assert first["conclusions"][0]["trend"]["sizes"] == [1, 2, 4, 8]
    assert second["verdict"] == "crashed"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        (Path(__file__), "is a file; pass the folder of an audit run"),
        ("no/such/folder", "holds no audit run; start one with"),
    ],
)
def test_what_holds_no_run_is_refused(place, message):
    with pytest.raises(AttangentError, match=message):
        load(place)
