"""Which known rule does an in-context learner follow?

A learner is a function (prompt tokens, labels, queries) -> answers. Here it is scikit-learn's k nearest
neighbours in disguise; `text_predictor(model, tokenizer)` makes one of a language model.
"""

from sklearn.linear_model import Ridge
from sklearn.neighbors import KNeighborsRegressor

from attangent.icl import Dictionary, compare_to_ridge, sklearn_predictor

tasks = Dictionary.random(K=24, d=4, m=4, N=12, tau=0.01, seed=0)
learners = {"ridge": Ridge(alpha=0.01, fit_intercept=False), "neighbours": KNeighborsRegressor(3)}
for name, learner in learners.items():
    found = compare_to_ridge(sklearn_predictor(lambda learner=learner: learner), tasks, prompts=40)
    print(f"{name}: nearest to '{found.nearest}' with certainty {found.certainty:.0%}")
print(found.table.head(3).to_string(index=False))
