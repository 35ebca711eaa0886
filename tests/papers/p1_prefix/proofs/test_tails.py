from fractions import Fraction

from attangent.audit.registry import all_claims
from attangent.papers.p1_prefix.proofs import tails

PROOFS = (
    tails.chernoff,
    tails.one_sign,
    tails.one_sub_exponential_sign,
    tails.chi_square,
    tails.matrix_chernoff,
    tails.union_over_prefix,
)


def test_every_step_holds_and_every_proof_is_used():
    used = {claim.proof for claim in all_claims().values() if claim.proof}
    for proof in PROOFS:
        assert all(step.holds for step in proof().steps), proof.__name__
        assert proof in used, proof.__name__


def test_exact_tails_by_hand():
    assert tails.binomial_lower(2, Fraction(1, 2), 1) == Fraction(3, 4)
    assert tails.urn_lower(4, 2, 2, 0) == Fraction(1, 6)
