"""The tests of `papers/p4/dictionary_setting.py`."""

import pytest

from attangent.audit import registry
from attangent.icl import RidgeLimit
from attangent.papers.p4_in_context.claims import bounds
from attangent.papers.p4_in_context.claims.dictionary_setting import Reparametrised, draw_dictionary


def test_the_reparametrised_gradient_is_the_slope_of_its_gap():
    given = draw_dictionary(registry.get("P4/lemma-7").quick, 0)
    l = Reparametrised(given, RidgeLimit(given).A, 3.0)
    Q, alpha = bounds._points(registry.get("P4/lemma-7").quick, 0)[100]
    moved = alpha.clone()
    moved[0, 0] += 1e-6
    slope = (l.gap(Q, moved) - l.gap(Q, alpha)) / 1e-6
    assert slope == pytest.approx(l.gradient(Q, alpha)[1][0, 0].item(), rel=1e-3)
