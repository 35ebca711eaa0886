"""The four ways to train: what they reach, and that they agree."""

import pytest
import torch

from attangent._core.errors import AttangentError
from attangent.icl import OUT_OF_DOMAIN, RidgeLimit
from attangent.papers.p4_in_context.one_layer.trainers import Coordinates, Projected, weight_rate_limit
from tests.icl.examples import model


@pytest.mark.parametrize("method", ["gd", "adam", "varpro"])
def test_stops_at_the_target(method):
    result = model(heads=4).fit(method, target=0.5, steps=2000)
    assert result.stopped == "target"
    assert result.gap <= 0.5 < result.gaps[-2]


@pytest.mark.parametrize(
    ("method", "options", "message"),
    [
        ("newton", {}, "expected one of solve, varpro, gd, adam"),
        ("solve", {"steps": 3}, "has no option steps"),
        ("gd", {"steps": 0}, "steps is 0"),
        ("gd", {"rate_Q": 0.1}, "pass both"),
        ("gd", {"rate_Q": 0.1, "rate_w": -1.0}, "rate_w is -1"),
        ("adam", {"rate": 0.0}, "rate is 0"),
        ("adam", {"prompts": 0}, "prompts is 0"),
        ("varpro", {"memory": 0}, "memory is 0"),
    ],
)
def test_refusals(method, options, message):
    trained = model()
    with pytest.raises(AttangentError, match=message):
        trained.fit(method, **options)
    assert not trained.w.any()


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


def test_descent_follows_the_printed_step():
    trained = model()
    trained.w = torch.ones_like(trained.w)
    Q, w = trained.Q.clone(), trained.w.clone()
    dQ, dw = trained.gradient()
    result = trained.fit("gd", steps=1, rate_Q=0.3, rate_w=0.7)
    torch.testing.assert_close(trained.Q, Q - 0.3 * dQ)
    torch.testing.assert_close(trained.w, w - 0.7 * dw)
    assert result.gaps.shape == (2,)
    assert trained.gap() == pytest.approx(result.gap, rel=1e-12)


def test_practical_descent_falls_at_every_step():
    result = model().fit("gd", steps=300)
    assert (result.gaps.diff() < 0).all()
    assert result.gap < 0.05 * result.gaps[0]


def test_descent_diverges_above_the_limit_of_its_rate_and_says_so():
    above = model()
    limit = weight_rate_limit(above)
    assert above.fit("gd", steps=4000, rate_Q=1e-12, rate_w=1.1 * limit).stopped == "diverged"
    assert not model().fit("gd", steps=300, rate_Q=1e-12, rate_w=0.95 * limit).diverged


def test_stops_where_nothing_moves():
    result = model().fit("gd", steps=500, rate_Q=1e-14, rate_w=1e-14, patience=20)
    assert result.stopped == "stalled"
    assert result.steps[-1] == 20


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("heads", [12, 24])
def test_solve_reaches_the_limit(heads, seed):
    trained = model(heads, seed)
    result = trained.fit(method="solve")
    assert result.stopped == "solved"
    assert result.gap < 1e-18
    labels = trained.dictionary.prompts(5, OUT_OF_DOMAIN).shown
    torch.testing.assert_close(
        trained.predict(labels), RidgeLimit(trained.dictionary).predict(labels), rtol=0, atol=1e-7
    )


def test_solve_takes_the_weights_of_least_norm():
    trained = model()
    trained.fit()
    for k in range(12):
        C = trained.attention()[:, :, k].T
        wanted = torch.linalg.pinv(C) @ trained.limit.A[:, k]
        torch.testing.assert_close(trained.w[:, k], wanted, rtol=1e-6, atol=1e-6)


def test_solve_refuses_too_few_heads():
    with pytest.raises(AttangentError, match=r"at least N=6 heads \(got 5"):
        model(heads=5).fit("solve")


def test_varpro_reaches_far_with_fewer_heads_than_tokens():
    trained = model(heads=5, d=16)
    result = trained.fit("varpro", steps=400, target=1e-9)
    assert result.stopped == "target"
    assert trained.gap() == pytest.approx(result.gap, rel=1e-4)
    assert result.gap < 1e-9


def test_varpro_with_more_tokens_in_the_prompt_than_dimensions():
    trained = model(heads=4, d=3)
    assert trained.fit("varpro", steps=100).gap < 0.1 * trained.limit.least_loss


def test_projected_gradient_equals_differences():
    trained = model(heads=4)
    coordinates = Coordinates(trained.dictionary)
    projected = Projected(trained, coordinates)
    P = coordinates.of(trained.Q)
    gap, gradient = projected.value_and_gradient(P)
    direction = gradient / gradient.norm()
    ahead, behind = (projected.value_and_gradient(P + s * direction)[0] for s in (1e-6, -1e-6))
    assert (ahead - behind) / 2e-6 == pytest.approx(gradient.norm().item(), rel=1e-6)
    trained.w = projected.weights(coordinates.attention(P))
    assert trained.gap() == pytest.approx(gap, rel=1e-10)
    torch.testing.assert_close(coordinates.back(P, trained.Q), trained.Q)
