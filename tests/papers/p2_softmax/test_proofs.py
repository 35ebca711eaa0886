from attangent.audit.registry import all_claims
from attangent.papers.p2_softmax import proofs

PROOFS = (
    proofs.four_terms,
    proofs.kernel_update,
    proofs.zero_features,
    proofs.close_points,
    proofs.growing_logarithm,
    proofs.dropped_kernel_norm,
    proofs.entire_functions,
    proofs.weaker_induction,
    proofs.two_intervals,
    proofs.wrong_clock,
    proofs.union_over_neurons,
)


def test_every_step_holds_and_every_proof_is_used():
    used = {claim.proof for claim in all_claims().values() if claim.proof}
    for proof in PROOFS:
        assert all(step.holds for step in proof().steps), proof.__name__
        assert proof in used, proof.__name__
