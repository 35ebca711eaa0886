"""The page of ten calls names them all, and their arguments and results have real types."""

import inspect
import re
from pathlib import Path
from typing import Any

import pytest

import attangent

PAGE = Path(__file__).parents[2] / "docs" / "calls.md"
CALLS = {
    "compress": attangent.compress,
    "serve": attangent.serving.serve,
    "load_tuned": attangent.load_tuned,
    "SeriesForecaster": attangent.forecast.SeriesForecaster,
    "attach": attangent.attach,
    "ntk_attention": attangent.ntk_attention,
    "tangent_kernel": attangent.tangent_kernel,
    "predict_training": attangent.predict_training,
    "compare_to_ridge": attangent.icl.compare_to_ridge,
    "audit.run": attangent.audit.run,
}
METHODS = [attangent.forecast.SeriesForecaster.fit, attangent.forecast.SeriesForecaster.predict]


def test_the_page_has_every_call_in_order():
    assert re.findall(r"^## (\S+)$", PAGE.read_text(), re.MULTILINE) == list(CALLS)


@pytest.mark.parametrize("call", [*CALLS.values(), *METHODS], ids=lambda call: call.__name__)
def test_types_are_real(call):
    signature = inspect.signature(call)
    hints = {name: each.annotation for name, each in signature.parameters.items() if name != "self"}
    if not isinstance(call, type):
        hints["return"] = signature.return_annotation
    assert [name for name, hint in hints.items() if hint in (Any, inspect.Parameter.empty, "Any")] == []
