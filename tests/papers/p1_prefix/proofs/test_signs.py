from attangent.audit.registry import all_claims
from attangent.papers.p1_prefix.proofs import signs

PROOFS = (
    signs.first_loss,
    signs.step_sum,
    signs.normaliser,
    signs.lost_sign,
    signs.dependent_signs,
    signs.without_signs,
    signs.steps_without_log_m,
    signs.geometric_sum,
)


def test_every_step_holds_and_every_proof_is_used():
    used = {claim.proof for claim in all_claims().values() if claim.proof}
    for proof in PROOFS:
        assert all(step.holds for step in proof().steps), proof.__name__
        assert proof in used, proof.__name__
