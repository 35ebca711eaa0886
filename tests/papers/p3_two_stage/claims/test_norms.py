"""The tests of `papers/p3/norms.py`."""

from attangent.papers.p3_two_stage.claims import norms
from tests.papers.harness import ClaimSuite, check


class TestClaims(ClaimSuite):
    found = {
        "P3/proposition-3": "violated",
        "P3/proposition-3-repaired": "holds",
        "P3/proposition-4": "holds",
        "P3/assumption-2": "violated",
        "P3/assumption-2-repaired": "holds",
    }
    benign = {"P3/assumption-2": {"u": 3.0, "r": 0.03}}
    broken = {
        "P3/proposition-3-repaired": {"frame": "axes"},
        "P3/proposition-4": {"gradient_factor": 0.1},
    }


def test_rows_in_a_random_frame_hold_less_of_the_gradient():
    rows = [
        [line.measured for line in check("P3/proposition-3", frame=frame).conclusions[:2]]
        for frame in ("random", "axes")
    ]
    assert max(rows[0]) < min(rows[1]) - 0.1


def test_longer_tokens_are_found_out(monkeypatch):
    class Longer(norms.TwoStageData):
        def sample(self, *given, **named):
            prompts = super().sample(*given, **named)
            return type(prompts)(1.5 * prompts.x1, *[getattr(prompts, f) for f in list(vars(prompts))[1:6]])

    monkeypatch.setattr(norms, "TwoStageData", Longer)
    assert check("P3/assumption-2-repaired").verdict.failed
