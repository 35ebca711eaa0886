"""A new package of claims: files that run, to be changed into the claims of a paper."""

import re
from pathlib import Path
from string import Template

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_whole
from attangent.audit.plugins import GROUP, sources

_PYPROJECT = """\
[build-system]
requires = ["hatchling>=1.26"]
build-backend = "hatchling.build"

[project]
name = "$package"
version = "0.1"
description = "The claims of $name, for attangent audit"
requires-python = ">=3.11"
dependencies = ["attangent"]

[project.entry-points."$group"]
$name = "$package"
"""

_INIT = """\
\"\"\"Claims of $name.\"\"\"

from attangent.audit import Paper

PAPER = Paper(
    title="The title of the paper",
    authors="Its authors",
    year="2024",
    link="https://example.org/paper",
    subject="What it is about, in a few words",
)
"""

_CLAIMS = """\
\"\"\"Section 1: change these into the statements of the paper.\"\"\"

import numpy as np

from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings, claim


@claim(
    "$name/lemma-1",
    place="Section 1, Lemma 1",
    title="The mean of draws settles",
    quote="the variance of the mean of n independent draws is the variance of one of them over n",
    statement="The variance of the mean of n independent uniform draws falls as 1/n.",
    quick={"sizes": [8, 16, 32, 64, 128], "repeats": 4000, "copies": 1},
    full={"repeats": 40000},
    seconds=0.1,
)
def mean_of_draws(settings: Settings, seed: int) -> Finding:
    \"\"\"With `copies` above 1 each draw is used several times: the hypothesis is then not met.\"\"\"
    rng = np.random.default_rng(seed)
    variances = []
    for n in settings.sizes:
        draws = rng.random((settings.repeats, n // settings.copies))
        variances.append(float(draws.mean(axis=1).var()))
    ratio = max(variance * 12 * n for variance, n in zip(variances, settings.sizes, strict=True))
    return Finding(
        hypotheses=(Hypothesis("uses of each draw", "==", 1.0, float(settings.copies)),),
        conclusions=(
            Conclusion.of_trend("variance over n", "<=", -0.9, settings.sizes, variances),
            Conclusion("largest variance * 12 n", "<=", 1.15, ratio, threshold="ours"),
        ),
        figures=(
            Figure(
                "Variance of the mean",
                "n",
                "variance",
                (
                    Series.of("measured", settings.sizes, variances, "points"),
                    Series.of("1 / 12 n", settings.sizes, [1 / 12 / n for n in settings.sizes], "bound"),
                ),
                log_x=True,
                log_y=True,
            ),
        ),
    )
"""

_TEST = """\
from $package.section_1 import mean_of_draws
from attangent.audit import Settings

SETTINGS = Settings(sizes=[8, 16, 32, 64, 128], repeats=2000, copies=1)


def test_what_the_audit_finds():
    assert mean_of_draws(SETTINGS, 1).verdict == "holds"


def test_it_can_find_the_opposite():
    fixed = SETTINGS | {"sizes": [8, 9, 10, 11], "repeats": 50}  # too few draws to see a trend
    assert mean_of_draws(fixed, 1).verdict == "violated"
"""

_README = """\
# Claims of $name

    pip install -e .
    attangent audit --paper $name
    python -m pytest
"""


def write_skeleton(name: str, out: str | Path | None = None) -> Path:
    """Write a package of claims for the paper `name` to `out`, by default ./PACKAGE; gives the folder.

    Refused where the name cannot stand in the id of a claim or is taken, or the folder holds something.
    """
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", name):
        raise AttangentError(
            f"the paper is called {name!r}, expected letters and digits that begin with a capital: MyPaper"
        )
    if name in sources():
        raise AttangentError(f"there are claims of a paper {name} already: choose another name")
    package = f"{re.sub(r'(?<=[a-z0-9])(?=[A-Z])', '_', name).lower()}_claims"
    folder = real_folder(Path(out if out is not None else package))
    if any(folder.iterdir()):
        raise AttangentError(f"{folder} is not empty: name another folder (--out)")
    files = {
        "pyproject.toml": _PYPROJECT,
        "README.md": _README,
        f"{package}/__init__.py": _INIT,
        f"{package}/section_1.py": _CLAIMS,
        "tests/test_section_1.py": _TEST,
    }
    for path, text in files.items():
        real_folder((folder / path).parent)
        write_whole(folder / path, Template(text).substitute(name=name, package=package, group=GROUP))
    return folder
