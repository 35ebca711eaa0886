"""Any predictor against ridge, kernel ridge and nearest neighbour."""

import warnings

import numpy as np
import pytest
import torch
from sklearn.dummy import DummyRegressor
from sklearn.ensemble import RandomForestRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor

from attangent._core.errors import AttangentError
from attangent.icl import (
    Dictionary,
    RepresentationWarning,
    RidgeLimit,
    compare_to_ridge,
    predictor_of,
    sklearn_predictor,
)
from attangent.icl.compare import NONE
from attangent.icl.rules import RULES, kernel_ridge, nearest_neighbour
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.papers.p4_in_context.transformer import InContextTransformer, TransformerConfig

DICTIONARY = Dictionary.random(K=14, d=6, m=4, N=8, tau=0.05, seed=2)


@pytest.fixture(scope="module", autouse=True)
def _trees_grow_once():
    """The one slow rule answers the same prompts of one dictionary once."""
    answers, grown = {}, RULES["trees"]

    def trees(dictionary, labels):
        given = dictionary.tokens.numpy().tobytes(), labels.numpy().tobytes()
        if given not in answers:
            answers[given] = grown(dictionary, labels)
        return answers[given]

    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(RULES, "trees", trees)
        yield


@pytest.mark.parametrize("name", RULES)
def test_each_rule_is_recognised(name):
    found = compare_to_ridge(
        lambda tokens, labels, queries: RULES[name](DICTIONARY, labels), DICTIONARY, prompts=20, rules=RULES
    )
    assert found.nearest == name
    assert found.certainty == 1
    assert found.distance[name] < 1e-25
    assert found.risk["predictor"] == pytest.approx(found.risk[name], rel=1e-12)


def test_the_ridge_a_predictor_uses_is_found():
    limit = RidgeLimit(DICTIONARY, alpha=3.7)
    found = compare_to_ridge(lambda tokens, labels, queries: limit.predict(labels)[:, 8:], DICTIONARY)
    assert found.implied_alpha == pytest.approx(3.7, rel=1e-3)
    assert found.implied_distance < 1e-8


def test_trained_attention_is_ridge_and_untrained_is_not():
    model = OneLayerAttention(DICTIONARY, heads=16)
    before = compare_to_ridge(predictor_of(model), DICTIONARY)
    assert before.risk["predictor"] == pytest.approx(1)
    model.fit("solve")
    after = compare_to_ridge(predictor_of(model), DICTIONARY)
    assert after.distance["ridge"] < 1e-15
    assert after.implied_alpha == pytest.approx(DICTIONARY.ridge, rel=1e-3)


def test_a_transformer_can_be_compared():
    model = InContextTransformer(6, 4, TransformerConfig(layers=1, d_model=8, d_ff=8, heads=2))
    found = compare_to_ridge(predictor_of(model), DICTIONARY, prompts=10)
    assert set(found.distance) == set(RULES) - {"trees"}
    assert all(value > 0 for value in found.distance.values())


def test_rules_against_scikit_learn():
    tokens, labels = DICTIONARY.tokens.numpy(), DICTIONARY.prompts(3).shown
    neighbour = KNeighborsRegressor(1).fit(tokens[:8], labels.T.numpy())
    np.testing.assert_array_equal(
        nearest_neighbour(DICTIONARY, labels).numpy(), neighbour.predict(tokens[8:]).T
    )
    squares = torch.cdist(DICTIONARY.tokens[:8], DICTIONARY.tokens).square()
    gamma = 1 / squares[squares > 0].median().item()
    alpha = DICTIONARY.ridge / DICTIONARY.Z.square().sum(dim=0).mean().item()
    kernel = KernelRidge(alpha=alpha, kernel="rbf", gamma=gamma).fit(tokens[:8], labels.T.numpy())
    wanted = kernel.predict(tokens[8:]).T
    np.testing.assert_allclose(kernel_ridge(DICTIONARY, labels).numpy(), wanted, atol=1e-10)


def test_what_no_rule_explains_is_none_of_these():
    def odd(tokens, labels, queries):
        return 3 + labels[:, :6].abs()

    found = compare_to_ridge(odd, DICTIONARY)
    assert found.nearest == NONE
    assert found.certainty > 0.99
    assert compare_to_ridge(odd, DICTIONARY, most=1e6).nearest != NONE


LEARNERS = {
    "5 nearest": lambda: KNeighborsRegressor(5),
    "least squares": lambda: LinearRegression(fit_intercept=False),
    "trees": lambda: RandomForestRegressor(40, random_state=7),
    "mean label": lambda: DummyRegressor(),
    NONE: lambda: DummyRegressor(strategy="constant", constant=3.0),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_learners_of_others_are_told_apart(name):
    dictionary = Dictionary.random(K=24, d=6, m=4, N=12, tau=0.05, seed=4)
    found = compare_to_ridge(sklearn_predictor(LEARNERS[name]), dictionary, prompts=20, rules=RULES)
    assert found.nearest == name
    assert found.certainty > 0.9


def test_representations_that_the_tokens_do_not_tell_are_warned_of():
    apart = Dictionary.random(K=14, d=6, m=4, N=8, tau=0.05, seed=2, representation="independent")
    learner = sklearn_predictor(LEARNERS["least squares"])
    with pytest.warns(RepresentationWarning, match="drawn independently of the tokens"):
        compare_to_ridge(learner, apart, prompts=5)
    with warnings.catch_warnings(record=True) as untold:
        compare_to_ridge(predictor_of(OneLayerAttention(apart, heads=16)), apart, prompts=5)
        compare_to_ridge(learner, DICTIONARY, prompts=5)
    assert untold == []


def test_intervals_come_from_prompts_and_hold_the_distance():
    limit = RidgeLimit(DICTIONARY, alpha=2.0)

    def predictor(tokens, labels, queries):
        return limit.predict(labels)[:, 8:]

    few, many = (compare_to_ridge(predictor, DICTIONARY, prompts=count) for count in (20, 500))
    for found in (few, many):
        low, high = found.interval["ridge"]
        assert low <= found.distance["ridge"] <= high
    assert np.ptp(many.interval["ridge"]) < 0.5 * np.ptp(few.interval["ridge"])
    assert many.table["rule"][0] == many.nearest


def test_the_picture(tmp_path):
    found = compare_to_ridge(lambda tokens, labels, queries: labels[:, :6], DICTIONARY, prompts=10)
    found.plot(tmp_path / "answers.png")
    assert (tmp_path / "answers.png").stat().st_size > 5000
    with pytest.raises(AttangentError, match="ending in"):
        found.plot(tmp_path / "answers.txt")


def test_refusals():
    with pytest.raises(AttangentError, match="expected different names out of ridge"):
        compare_to_ridge(lambda tokens, labels, queries: labels, DICTIONARY, rules=["magic"])
    with pytest.raises(AttangentError, match="expected \\(200, 6\\)"):
        compare_to_ridge(lambda tokens, labels, queries: labels, DICTIONARY)
    with pytest.raises(AttangentError, match="NaN"):
        compare_to_ridge(lambda tokens, labels, queries: labels[:, :6] * float("nan"), DICTIONARY)
    with pytest.raises(AttangentError, match="K above N"):
        compare_to_ridge(lambda tokens, labels, queries: labels, DICTIONARY.with_prompt_length(14))
    other = Dictionary.random(K=14, d=6, m=4, N=8, tau=0.05, seed=3)
    with pytest.raises(AttangentError, match="on its own dictionary"):
        compare_to_ridge(predictor_of(OneLayerAttention(DICTIONARY, heads=16)), other)
