"""A registry that holds only the claims a test puts there."""

import pytest

from attangent.audit import registry
from tests.audit.fakes import crashing, dying, make_claim


@pytest.fixture
def claims(monkeypatch):
    """The registry's claims: two that are well, one that crashes with one seed, one whose process dies."""
    mine = {
        claim.id: claim
        for claim in (
            make_claim("P1/lemma-1"),
            make_claim("P1/lemma-2"),
            make_claim("P2/lemma-3", crashing),
            make_claim("P3/lemma-4", dying, seeds=1),
        )
    }
    monkeypatch.setattr(registry, "_claims", mine)
    monkeypatch.setattr(registry, "_paper_names", lambda: sorted({claim.paper for claim in mine.values()}))
    monkeypatch.setattr(registry, "_load_paper", lambda paper: None)
    return mine
