import pickle
from dataclasses import replace

import pytest

from attangent import AttangentError
from attangent.audit import Settings
from attangent.audit.claims import claim_order, kind_of
from tests.audit.fakes import make_claim


def test_settings_read_both_ways_and_merge_without_change():
    settings = Settings(n=8, d=4)
    merged = settings | {"n": 2, "rate": 0.5}
    assert (settings.n, settings["d"], dict(merged)) == (8, 4, {"n": 2, "d": 4, "rate": 0.5})
    assert dict(settings) == {"n": 8, "d": 4}


def test_settings_name_what_there_is():
    with pytest.raises(AttributeError, match="no setting 'm'; expected one of n, d"):
        Settings(n=8, d=4).m  # noqa: B018


def test_settings_travel_to_workers():
    assert dict(pickle.loads(pickle.dumps(Settings(n=8)))) == {"n": 8}


@pytest.mark.parametrize("id", ["theorem-1", "P2/Theorem-1", "P2/", "p2/lemma-1", "P2/../x", "P2/lemma 1"])
def test_ids_have_one_form(id):
    with pytest.raises(AttangentError, match="must look like"):
        make_claim(id)


def test_profiles():
    claim = make_claim("P2/lemma-1")
    assert (claim.paper, claim.settings("quick").n, claim.settings("full").n) == ("P2", 300, 400)
    with pytest.raises(AttangentError, match="unknown profile 'fast'; expected one of quick, full"):
        claim.settings("fast")


def test_order_of_ids():
    ids = [
        "P2/lemma-10a",
        "P2/lemma-b.1",
        "P10/lemma-1",
        "P2/lemma-10",
        "P2/lemma-5.3",
        "P2/lemma-5.1",
        "P1/theorem-1",
    ]
    wanted = [
        "P1/theorem-1",
        "P10/lemma-1",
        "P2/lemma-5.1",
        "P2/lemma-5.3",
        "P2/lemma-10",
        "P2/lemma-10a",
        "P2/lemma-b.1",
    ]
    assert sorted(ids, key=claim_order) == wanted


@pytest.mark.parametrize(
    ("id", "kind"),
    [
        ("P1/theorem-3.2", "theorem"),
        ("P2/lemma-b.1", "theorem"),
        ("P2/definition-3.6", "identity"),
        ("P2/equation-25", "identity"),
        ("P1/table-1", "experiment"),
        ("P4/multi-head", "experiment"),
    ],
)
def test_the_kind_of_a_statement_follows_from_its_name(id, kind):
    assert kind_of(id) == kind


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"kind": "guess"}, "kind 'guess'; expected one of theorem, identity, experiment, misprint, ours"),
        ({"quote": "long " * 100}, "must have at most 300 letters .got 500"),
        ({"rests_on": ("lemma 3",)}, "claim id 'lemma 3' must look like"),
    ],
)
def test_what_cannot_be_said_of_a_claim(changes, message):
    with pytest.raises(AttangentError, match=message):
        replace(make_claim("P2/lemma-1"), **changes)


def test_ids_of_other_peoples_papers():
    assert make_claim("Smith2024/theorem-1").paper == "Smith2024"
