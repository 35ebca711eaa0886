"""Adam: torch's own on autograd, and the paper's sampled prompts."""

import pytest
import torch

from attangent.icl import OUT_OF_DOMAIN
from tests.icl.examples import model


@pytest.mark.parametrize("prompts", [None, 2000])
def test_adam_learns_on_the_population_and_on_prompts(prompts):
    result = model().fit("adam", steps=500, prompts=prompts, record_every=100)
    assert result.steps.tolist() == [0, 100, 200, 300, 400, 500]
    assert result.gap < 0.01 * result.gaps[0]


def test_adam_equals_torch_on_autograd():
    ours, theirs = model(), model()
    theirs.Q.requires_grad_()
    theirs.w.requires_grad_()
    optimizer = torch.optim.Adam([theirs.Q, theirs.w], lr=1e-2)
    for _ in range(5):
        optimizer.zero_grad()
        D = theirs.matrix() - theirs.limit.A
        ((D * (theirs.dictionary.M @ D)).sum() / 24).backward()
        optimizer.step()
    ours.fit("adam", steps=5)
    torch.testing.assert_close(ours.Q, theirs.Q.detach())
    torch.testing.assert_close(ours.w, theirs.w.detach())


def test_what_is_watched_is_recorded():
    watch = {"ood": lambda trained: trained.inference_loss(OUT_OF_DOMAIN)}
    trained = model()
    result = trained.fit("adam", steps=20, watch=watch)
    assert result.watched["ood"].shape == result.gaps.shape
    assert result.watched["ood"][-1].item() == pytest.approx(trained.inference_loss(OUT_OF_DOMAIN), rel=1e-5)


def test_the_same_seed_gives_the_same_run():
    first, again = (model().fit("adam", steps=20, prompts=100, batch=32, seed=5).gaps for _ in range(2))
    assert torch.equal(first, again)
