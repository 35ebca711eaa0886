"""The room's public names."""

import inspect

import attangent.stages


def test_every_name_is_there_and_documented():
    for name in attangent.stages.__all__:
        assert inspect.getdoc(getattr(attangent.stages, name))
