from attangent.audit.registry import all_claims
from attangent.papers.p1_prefix.proofs import kernel

PROOFS = (
    kernel.printed_kernel,
    kernel.minor_terms,
    kernel.too_few_steps,
    kernel.slow_step,
    kernel.slope,
    kernel.equal_points,
    kernel.explicit_length,
)


def test_every_step_holds_and_every_proof_is_used():
    used = {claim.proof for claim in all_claims().values() if claim.proof}
    for proof in PROOFS:
        assert all(step.holds for step in proof().steps), proof.__name__
        assert proof in used, proof.__name__
