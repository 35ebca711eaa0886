from tests.papers.harness import ClaimSuite


class TestClaims(ClaimSuite):
    found = {
        "P1/lemma-d.3-repaired": "holds",
        "P1/lemma-d.6-repaired": "holds",
        "P1/lemma-d.8-repaired": "holds",
        "P1/lemma-d.9-repaired": "holds",
        "P1/lemma-d.10-repaired": "holds",
    }
    broken = {
        "P1/lemma-d.3-repaired": {"half": 1.0},
        "P1/lemma-d.6-repaired": {"factor": 1.0},
        "P1/lemma-d.8-repaired": {"lower": False},
        "P1/lemma-d.9-repaired": {"factor": 1.0},
        "P1/lemma-d.10-repaired": {"half": 1.0},
    }
