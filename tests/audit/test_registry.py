import contextlib
import re
import subprocess
import sys

import pytest

from attangent import AttangentError
from attangent.audit import registry
from attangent.audit.registry import list_claims
from tests.audit.fakes import steady

FOUNDATION = (
    "claim-3.4", "definition-3.6", "definition-3.7", "theorem-4.2", "corollary-4.3", "lemma-5.1", "lemma-5.3",
    "lemma-b.1", "lemma-d.1", "lemma-e.1", "lemma-e.3", "equation-25", "theorem-f.2",
)  # fmt: skip


def test_the_claims_of_p2_are_there():
    assert {f"P2/{name}" for name in FOUNDATION} <= set(registry.all_claims())


def test_every_claim_explains_itself():
    for id, claim in registry.all_claims().items():
        assert re.fullmatch(r"P[1-5]/[a-z][a-z0-9.-]*", id)
        assert len(claim.statement) > 30, id
        assert claim.place, id
        assert claim.title, id
        assert set(claim.quick) <= set(claim.full), id


def test_nature_place_and_erratum_have_defaults():
    claim = registry.get("P3/theorem-3")
    assert claim.nature == "main result"
    assert "withdrawn" in claim.erratum
    assert registry.get("P3/theorem-3-repaired").place == "ours"


def test_a_statement_of_a_paper_needs_a_place(claims):
    with pytest.raises(AttangentError, match="P1/lemma-9 needs a place"):
        registry.claim("P1/lemma-9", title="t", quick={})


def test_select_by_id_pattern_and_paper(claims):
    def chosen(*arguments):
        return [claim.id for claim in registry.select(*arguments)]

    assert chosen(["P1/lemma-2"]) == ["P1/lemma-2"]
    assert chosen(["P1/*", "P2/lemma-3"]) == ["P1/lemma-1", "P1/lemma-2", "P2/lemma-3"]
    assert chosen([], "P2") == ["P2/lemma-3"]
    assert len(chosen()) == 4


def test_unknown_names_are_answered_with_the_valid_ones(claims):
    with pytest.raises(AttangentError, match=r"'P1/lema-1': did you mean P1/lemma-1.*--list` lists all 4"):
        registry.select(["P1/lema-1"])
    with pytest.raises(AttangentError, match="unknown paper 'P9'; expected one of P1, P2, P3"):
        registry.select([], "P9")
    with pytest.raises(AttangentError, match="unknown claim id 'nothing-like-it'"):
        registry.get("nothing-like-it")


def test_an_id_is_registered_once(claims):
    register = registry.claim("P1/lemma-1", place="p", title="t", statement="s", quick={})
    with pytest.raises(AttangentError, match="registered twice"):
        register(steady)


@pytest.mark.parametrize(
    ("pattern", "papers"),
    [
        ("P2/lemma-3", ["P2"]),
        ("P2/*", ["P2"]),
        ("P2*", ["P2"]),
        ("P?/lemma-*", ["P1", "P2", "P3"]),
        ("P[12]/lemma-*", ["P1", "P2", "P3"]),
        ("*lemma-3", ["P1", "P2", "P3"]),
        ("nothing-like-it", []),
    ],
)
def test_only_papers_that_may_match_are_loaded(claims, monkeypatch, pattern, papers):
    loaded = []
    monkeypatch.setattr(registry, "_load_paper", loaded.append)
    with contextlib.suppress(AttangentError):
        registry.select([pattern])
    assert sorted(set(loaded)) == (papers or ["P1", "P2", "P3"])  # what is unknown is answered with all ids


def test_a_paper_and_a_pattern_of_another_give_nothing(claims):
    assert registry.select(["P1/lemma-1"], "P2") == []
    assert [claim.id for claim in registry.select(iter(["*lemma-3"]))] == ["P2/lemma-3"]


def test_listing_imports_no_room_and_asking_for_one_paper_leaves_the_others_alone():
    code = (
        "import sys; from attangent.audit import registry; assert len(registry.list_claims()) > 100; "
        "rooms = ('torch', 'scipy', 'attangent.kernels', 'attangent.icl'); "
        "print([m for m in rooms if m in sys.modules]); registry.select([], 'P2'); "
        "print([m for m in sys.modules if m.startswith('attangent.papers.p1_prefix.') or m == 'sklearn'])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["[]", "[]"]


def shown(claims):
    return [(claim.id, claim.place, claim.title) for claim in claims]


@pytest.mark.parametrize(
    ("patterns", "paper"), [([], None), ([], "P2"), (["P1/lemma-*", "P3/theorem-1"], None), (["P1/*"], "P2")]
)
def test_it_lists_what_the_registry_selects(patterns, paper):
    assert shown(list_claims(patterns, paper)) == shown(registry.select(patterns, paper))


def test_unknown_names_are_answered_as_there():
    with pytest.raises(AttangentError, match="unknown claim id 'P1/lemma-nothing'"):
        list_claims(["P1/lemma-nothing"])
    with pytest.raises(AttangentError, match="unknown paper 'P9'"):
        list_claims([], "P9")
