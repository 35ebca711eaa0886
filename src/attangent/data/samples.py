"""The small data sets that are part of the package."""

from pathlib import Path

from attangent._core.checks import check_choice

SAMPLES = {
    "weather": "weather of Seattle on 1,461 days: precipitation, temperatures, wind",
    "employment": "employees of 22 sectors of the United States in 120 months, below each other",
}


def sample(name: str) -> Path:
    """The CSV of a small real data set that comes with the package: weather or employment.

    Both are in the public domain; samples/README.md says where they are from.
    """
    check_choice("name", name, tuple(SAMPLES))
    return Path(__file__).with_name("samples") / f"{name}.csv.gz"
