import dataclasses

import pytest

from attangent import AttangentError
from attangent.adapters import NTKConfig


def test_the_default_is_the_recipe():
    config = NTKConfig()
    assert (config.features, config.resolved_units) == ("learned", "calibrated")
    assert (config.resolved_size, config.resolved_share) == (16, 0.03)


@pytest.mark.parametrize(
    ("given", "units", "size", "share"),
    [
        ({"features": "anchors"}, "calibrated", 16, 0.5),
        ({"features": "anchors", "units": "raw"}, "raw", 16, 0.0),
        ({"features": "elu"}, "raw", None, 0.0),
        ({"features": "elu", "units": "authors"}, "authors", None, 0.0),
        ({"features": "taylor"}, "raw", 2, 0.0),
        ({"features": "learned", "share": 0}, "calibrated", 16, 0.0),
    ],
)
def test_what_is_not_said_follows_from_the_features(given, units, size, share):
    config = NTKConfig(**given)
    assert (config.resolved_units, config.resolved_size, config.resolved_share) == (units, size, share)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"features": "colours"}, "features is 'colours', expected one of learned"),
        ({"init": "random"}, "init is 'random'"),
        ({"per": "head"}, "per is 'head'"),
        ({"units": "metres"}, "units is 'metres'"),
        ({"size": 0}, "size is 0"),
        ({"size": 1}, "at least 2 learned features"),
        ({"size": 10**9, "features": "anchors"}, "expected at most"),
        ({"rank": True, "features": "elu"}, "rank is True"),
        ({"rank": 2}, "rank needs units='raw'"),
        ({"share": -1}, "share is -1"),
        ({"damped": -0.1}, "damped is -0.1"),
        ({"damped": 1}, "damped is 1, expected less"),
        ({"share": float("nan")}, "share is nan"),
        ({"share": 0.1, "features": "elu"}, "share is 0.1 in raw units"),
        ({"features": "elu", "units": "calibrated"}, "use units='raw'"),
        ({"features": "elu", "size": 4}, "has the size of the head"),
        ({"init": "gaussian"}, "do not represent keys"),
        ({"position_offset": -1}, "position_offset is -1"),
        ({"seed": 1.5}, "seed is 1.5"),
        ({"layers": "("}, "no regular expression"),
        ({"layers": ()}, "expected a regular expression"),
        ({"layers": 3}, "layers is 3, expected a regular expression"),
        ({"modules_to_save": "classifier"}, "modules_to_save is 'classifier', expected names"),
        ({"prefix_length": 0}, "prefix_length is 0"),
    ],
)
def test_what_cannot_be_is_refused(given, says):
    with pytest.raises(AttangentError) as error:
        NTKConfig(**given)
    assert says in str(error.value)


def test_it_is_frozen_and_survives_a_file():
    config = NTKConfig(features="anchors", layers=(-1,), modules_to_save=("classifier",), position_offset=7)
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.size = 3  # type: ignore[misc]
    assert NTKConfig.from_dict(config.as_dict()) == config
    for settings in (3, ["size"]):
        with pytest.raises(AttangentError, match="expected them by name"):
            NTKConfig.from_dict(settings)
    with pytest.raises(AttangentError, match="unknown settings colour"):
        NTKConfig.from_dict({"colour": 1})
