"""Distributions of tasks."""

import pytest

from attangent._core.errors import AttangentError
from attangent.icl import OUT_OF_DOMAIN, Dictionary, Tasks


def test_out_of_domain_tasks_are_those_of_the_paper():
    drawn = Dictionary.random(K=10, d=6, m=4, N=5, tau=0.3).prompts(20_000, OUT_OF_DOMAIN)
    assert drawn.tasks.mean().item() == pytest.approx(1, abs=0.05)
    assert drawn.tasks.var().item() == pytest.approx(4, rel=0.05)


def test_tasks_refuse_what_is_unknown():
    with pytest.raises(AttangentError, match="shape is 'uniform'"):
        Tasks("uniform")  # pyright: ignore[reportArgumentType]
    with pytest.raises(AttangentError, match="std is -1"):
        Tasks(std=-1)
    with pytest.raises(AttangentError, match="m is -1"):
        Tasks().second_moment(-1)
