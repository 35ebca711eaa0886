from attangent.audit.registry import all_claims
from attangent.papers.p1_prefix.proofs import attention

PROOFS = (
    attention.too_many_features,
    attention.token_values,
    attention.linear_cost,
    attention.printed_projection,
    attention.lora_average,
    attention.gradient_steps_move_the_state,
)


def test_every_step_holds_and_every_proof_is_used():
    used = {claim.proof for claim in all_claims().values() if claim.proof}
    for proof in PROOFS:
        assert all(step.holds for step in proof().steps), proof.__name__
        assert proof in used, proof.__name__


def test_taylor_sums_by_hand():
    assert attention._taylor(4, 2) == 1 - 4 + 8
