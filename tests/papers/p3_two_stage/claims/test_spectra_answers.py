"""The tests of `papers/p3/spectra_answers.py`."""

import numpy as np
import pytest
import torch

from attangent.audit import Verdict
from attangent.papers.p3_two_stage.claims.spectra_answers import Answers
from tests.papers.harness import check, line, measured


def test_small_values_do_not_bring_the_syntax_back_first():
    finding = check("P3/figure-1")
    assert finding.verdict is Verdict.MEASURED  # one answer that turns is all that the figure shows
    assert measured(finding, "answers that turn") > 10
    assert measured(finding, "smallest kept") < 0.4
    assert not line(finding, "smallest kept").decides


def test_a_model_without_such_answers_is_found_out():
    tiny = {"width": 16, "layers": 1, "batch": 32, "epochs": 1, "most_examples": 60}
    assert check("P3/figure-1", rhos=[0.5, 1.0], **tiny).verdict is Verdict.NOT_REPRODUCED


def test_answers_by_way_of_the_right_type():
    right_type = torch.tensor([[0, 0, 0, 1], [1, 0, 1, 1], [1, 1, 1, 1]], dtype=torch.bool)
    right = torch.tensor([[0, 0, 0, 0], [0, 0, 1, 0], [1, 1, 1, 1]], dtype=torch.bool)
    found = Answers(right_type, right)
    assert found.by_way_of_type == 1
    assert found.syntax_first == pytest.approx(2 / 3)
    assert np.isnan(Answers(right_type[[0, 0]], right[[0, 0]]).syntax_first)
