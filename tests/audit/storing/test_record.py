"""Findings with a valid checksum and foreign values: named, and the rest is shown."""

import json

import pytest

from attangent.audit import load
from attangent.audit.report.markdown import render_markdown
from attangent.audit.report.page import render
from attangent.audit.storing.store import Store, _wrap
from tests.audit.examples import bounded, curves, make_record

CHANGES = {
    "a relation": ("finding", "conclusions", 0, "relation", "~"),
    "a threshold": ("finding", "conclusions", 0, "threshold", "mine"),
    "a name": ("finding", "conclusions", 0, "name", 7),
    "a step": ("finding", "conclusions", 0, "first_violation", "soon"),
    "a value": ("finding", "conclusions", 0, "measured", "much"),
    "a trend": ("finding", "conclusions", 0, "trend", {"sizes": [1], "values": [1]}),
    "an unknown field": ("finding", "conclusions", 0, "colour", "red"),
    "a kind of series": ("finding", "figures", 0, "series", 0, "kind", "pie"),
    "a logarithm": ("finding", "figures", 0, "log_y", "yes"),
    "a remark": ("finding", "remark", ["x"]),
    "a number": ("finding", "numbers", {"n": None}),
    "a seed": ("origin", "seed", "0"),
    "a claim": ("origin", "claim", "../../etc"),
    "settings": ("origin", "settings", [1]),
    "what it rests on": ("origin", "rests_on", [3]),
    "versions": ("versions", ["x"]),
}


@pytest.fixture
def folder(tmp_path):
    store = Store(tmp_path / "run")
    store.prepare("quick")
    for claim in ("P2/lemma-1", "P2/lemma-2"):
        store.write(make_record(claim, bounded(0.5, figures=(curves(),))))
    return store.folder


def rewrite(path, change):
    """Change one value of a file and give it the checksum that fits."""
    body = json.loads(path.read_text())["body"]
    place = body
    for key in change[:-2]:
        place = place[key]
    place[change[-2]] = change[-1]
    path.write_bytes(_wrap(body))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_one_unreadable_finding_is_named_and_the_rest_shown(folder, change):
    rewrite(folder / "findings" / "P2--lemma-1--seed-0.json", change)
    run = load(folder)
    assert [path.name for path in run.problems] == ["P2--lemma-1--seed-0.json"]
    assert [result.claim for result in run.results()] == ["P2/lemma-2"]
    assert "P2--lemma-1--seed-0.json" in render(run)
    assert "P2/lemma-2" in render_markdown(run)


def test_letters_that_cannot_be_written_are_replaced(folder):
    rewrite(folder / "findings" / "P2--lemma-1--seed-0.json", ("origin", "title", "odd \ud800 letter"))
    run = load(folder)
    assert run.problems == {}
    render(run).encode()
    render_markdown(run).encode()
    assert run.results()[0].origin.title == "odd ? letter"
