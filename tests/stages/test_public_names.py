"""The room's public names."""

import importlib
import inspect

import attangent.stages


def test_every_name_is_there_and_documented():
    for name in attangent.stages.__all__:
        assert inspect.getdoc(getattr(attangent.stages, name))


def test_the_function_is_not_hidden_by_its_module():
    importlib.import_module("attangent.stages.spectra.singular_values")
    assert inspect.isfunction(attangent.stages.spectra.singular_values)
