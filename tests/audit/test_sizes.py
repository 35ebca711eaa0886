import pickle

import pytest

from attangent import AttangentError
from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Settings, registry
from attangent.audit.sizes import AtSizes


def check(settings: Settings, seed: int) -> Finding:
    return Finding(
        conclusions=(Conclusion("error", "<=", settings.bound, 1 / settings.m),),
        hypotheses=(Hypothesis("width", ">=", 1, settings.m),),
        numbers={"seed": seed},
        figures=(Figure("errors", "x", "y", (Series.of("a", [1.0], [1.0]),)),),
        differs=("made up",),
    )


SIZES = ({"m": 4}, {"m": 16})


def test_a_check_is_made_at_each_size():
    found = AtSizes(check, SIZES)(Settings(m=1, bound=0.1), 7)
    assert [(line.name, line.measured) for line in found.conclusions] == [
        ("error, m = 4", 0.25),
        ("error, m = 16", 0.0625),
    ]
    assert [line.kept for line in found.conclusions] == [False, True]
    assert [line.name for line in found.hypotheses] == ["width, m = 4", "width, m = 16"]
    assert found.numbers == {"seed, m = 4": 7, "seed, m = 16": 7}
    assert [figure.title for figure in found.figures] == ["errors, m = 4", "errors, m = 16"]
    assert found.differs == ("made up",)


def test_it_travels_to_workers_and_names_its_module():
    moved = pickle.loads(pickle.dumps(AtSizes(check, SIZES)))
    assert moved(Settings(m=1, bound=1.0), 0).verdict == "measured"


REPAIR = {"place": "p", "title": "t", "statement": "s", "quick": {"bound": 1.0}, "repairs": "P1/lemma-1"}


def test_a_repair_is_ours_with_a_derivation_three_seeds_and_two_sizes(claims):
    registry.claim("P1/lemma-1-repaired", **REPAIR, derivation="Because.", sizes=SIZES)(check)
    made = claims["P1/lemma-1-repaired"]
    assert (made.kind, made.repairs, made.module) == ("ours", "P1/lemma-1", __name__)
    assert len(made.check(made.quick, 0).conclusions) == 2


@pytest.mark.parametrize(
    "changes",
    [
        {"derivation": ""},
        {"sizes": SIZES[:1]},
        {"sizes": ()},
        {"seeds": 2},
        {"kind": "theorem"},
    ],
)
def test_a_repair_without_them_is_refused(claims, changes):
    given = {**REPAIR, "derivation": "Because.", "sizes": SIZES, **changes}
    with pytest.raises(AttangentError, match="expected kind='ours', a derivation, at least three seeds"):
        registry.claim("P1/lemma-1-repaired", **given)(check)
