from attangent.audit import Verdict
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P1/table-2-averages": "holds",
        "P1/section-5-datasets": "violated",
        "P1/section-4.3-cost": "violated",
        "P1/definition-j.1": "violated",
        "P1/fact-d.1": "holds",
        "P1/fact-d.2": "holds",
        "P1/lemma-d.4": "holds",
    }
    broken = {
        "P1/table-2-averages": {"leads": [7.4, 5.81, 13.36]},
        "P1/fact-d.1": {"reach": 0.1},
        "P1/fact-d.2": {"power": 0.0, "ratios": [1.5]},
        "P1/lemma-d.4": {"factor": 1.0},
    }
    benign = {
        "P1/section-4.3-cost": {"exponent": 1.0},
        "P1/definition-j.1": {"same": True},
    }


def test_without_the_data_the_labels_are_open(monkeypatch):
    monkeypatch.delenv("ATTANGENT_DATA", raising=False)
    assert check("P1/section-5-datasets").verdict is Verdict.OPEN


def test_an_average_that_is_off_is_found_out():
    wrong = {"FFT": (85.15, 84.76, 76.20, 82.14)}
    assert check("P1/table-2-averages", printed=wrong).verdict is Verdict.VIOLATED
