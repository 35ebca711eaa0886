"""The tests of `papers/p4/interpretation.py`."""

import dataclasses

import pytest

from attangent.audit import Verdict, registry
from attangent.icl import Dictionary
from attangent.papers.p4_in_context.claims import interpretation
from attangent.papers.p4_in_context.claims.dictionary_setting import draw_dictionary, model
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P4/multi-head": "holds",
        "P4/generalization": "measured",
    }
    broken = {
        "P4/multi-head": {"K": 10, "steps": 5},
    }


def test_untrained_attention_does_not_generalise(monkeypatch):
    monkeypatch.setattr(OneLayerAttention, "fit", lambda self, *method, **options: None)
    assert check("P4/generalization").verdict is Verdict.NOT_REPRODUCED  # its training is a hypothesis


def test_answers_worse_than_none_are_found_out(monkeypatch):
    right = interpretation.compare_to_ridge

    def worse(*given):
        found = right(*given)
        return dataclasses.replace(found, risk={**found.risk, "predictor": 1.2})

    monkeypatch.setattr(interpretation, "compare_to_ridge", worse)
    assert check("P4/generalization").verdict is Verdict.NOT_REPRODUCED


def test_floor_of_one_head_is_below_every_single_head():
    settings = registry.get("P4/multi-head").quick
    given = draw_dictionary(settings, 0)
    floor = interpretation.least_gap_of_one_head(given)
    for seed in range(3):
        one = model(settings | {"heads": 1, "logit_std": 1.0 + seed}, seed, given)
        assert one.fit("varpro", steps=60).gap >= floor
    assert floor > 0.01


def test_floor_of_one_head_is_zero_where_no_query_is_asked():
    given = Dictionary.random(K=5, d=4, m=3, N=5, tau=0.1, representation="independent")
    assert interpretation.least_gap_of_one_head(given) == pytest.approx(0, abs=1e-20)
