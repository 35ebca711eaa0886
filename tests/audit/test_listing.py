import subprocess
import sys

import pytest

from attangent import AttangentError
from attangent.audit import registry
from attangent.audit.listing import list_claims


def shown(claims):
    return [(claim.id, claim.place, claim.title) for claim in claims]


@pytest.mark.parametrize(
    ("patterns", "paper"), [([], None), ([], "P2"), (["P1/lemma-*", "P3/theorem-1"], None), (["P1/*"], "P2")]
)
def test_it_lists_what_the_registry_selects(patterns, paper):
    assert shown(list_claims(patterns, paper)) == shown(registry.select(patterns, paper))


def test_unknown_names_are_answered_as_there():
    with pytest.raises(AttangentError, match="unknown claim id 'P1/lemma-nothing'"):
        list_claims(["P1/lemma-nothing"])
    with pytest.raises(AttangentError, match="unknown paper 'P9'"):
        list_claims([], "P9")


def test_listing_imports_no_room():
    code = (
        "import sys; from attangent.audit.listing import list_claims; assert len(list_claims()) > 100; "
        "print([m for m in ('torch', 'scipy', 'attangent.kernels', 'attangent.icl') if m in sys.modules])"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
