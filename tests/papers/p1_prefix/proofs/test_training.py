from attangent.audit.registry import all_claims
from attangent.papers.p1_prefix.proofs import training

PROOFS = (training.explicit_length,)


def test_every_step_holds_and_every_proof_is_used():
    used = {claim.proof for claim in all_claims().values() if claim.proof}
    for proof in PROOFS:
        assert all(step.holds for step in proof().steps), proof.__name__
        assert proof in used, proof.__name__
