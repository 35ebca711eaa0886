import pytest
import torch

from attangent.attention import PrefixState
from attangent.attention.features import Anchors
from attangent.audit import Verdict, registry
from attangent.papers.p1_prefix.claims.compression import Compression, equivalents, trained_reader

ID = "P1/appendix-c-compression"


@pytest.fixture(scope="module")
def claim():
    return registry.get(ID)


@pytest.fixture(scope="module")
def finding(claim):
    return claim.check(claim.quick, 1)


def test_the_authors_map_does_not_compress_a_prompt_and_fitted_anchors_do(finding):
    assert finding.verdict is Verdict.MEASURED
    assert finding.numbers["KL ratio, elu, Eq. (7)"] > 0.4
    assert finding.numbers["KL ratio, anchors, fitted"] < 0.01
    assert (
        finding.numbers["KL ratio, Taylor of order 4, Eq. (7)"]
        < finding.numbers["KL ratio, Taylor of order 2, Eq. (7)"]
    )
    assert finding.numbers["size in tokens, elu, Eq. (7)"] == 4.5
    assert len(finding.figures) == 2


def test_a_map_that_keeps_less_with_more_features_is_found_out(claim):
    backwards = ["Taylor of order 4, Eq. (7)", "Taylor of order 2, Eq. (7)"]
    settings = claim.quick | {"polynomial": backwards, "sizes": [6], "steps": 30, "m": 256}
    assert claim.check(settings, 1).verdict is Verdict.NOT_REPRODUCED


def test_a_state_larger_than_the_prompt_is_found_out(claim):
    settings = claim.quick | {"sizes": [6], "steps": 30, "m": 16}
    assert claim.check(settings, 1).verdict is Verdict.NOT_REPRODUCED


def test_the_authors_map_does_not_decide(finding):
    line = next(c for c in finding.conclusions if "elu, Eq. (7)" in c.name)
    assert not line.kept
    assert not line.decides


@pytest.fixture(scope="module")
def problem():
    return Compression.draw(trained_reader(12, 2, 8, 60, seed=0), 128, 8, seed=0)


def test_all_tokens_as_anchors_keep_everything(problem):
    whole = PrefixState(Anchors(problem.keys), problem.values, torch.ones(2, 128))
    assert problem.ratio(whole) < 1e-6
    assert equivalents(whole) == pytest.approx(128 * 17 / 16)
    empty = PrefixState(Anchors(problem.keys), 0 * problem.values, torch.zeros(2, 128))
    assert problem.ratio(empty) == pytest.approx(1, abs=1e-6)


def test_the_trained_model_reads_its_prompt(problem):
    """Behind the prompt the held-out text is likelier than without it."""
    from attangent.attention.backends.torch.portable import merged
    from attangent.compression.prompt_cache import prompt_part

    text = problem.held_out
    call = problem.model.call(text[:, :-1])
    tokens = call.tokens()
    full = merged(tokens, prompt_part(call, problem.keys, problem.values))[0]
    losses = [
        torch.nn.functional.cross_entropy(
            problem.model.logits(text[:, :-1], attended).flatten(0, 1), text[:, 2:].flatten()
        ).item()
        for attended in (full, tokens[0])
    ]
    assert losses[0] < losses[1] - 0.1
