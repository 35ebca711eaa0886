"""A claim of your own: a statement, a check that measures it, and settings under which it must fail."""

import numpy as np

from attangent.audit import Conclusion, Finding, Hypothesis, Settings


def mean_of_draws(settings: Settings, seed: int) -> Finding:
    """The variance of the mean of n independent uniform draws falls as 1/n."""
    draw = np.random.default_rng(seed)
    shape = (settings.repeats, max(settings.sizes))
    draws = draw.random(shape) if settings.independent else np.repeat(draw.random((shape[0], 1)), shape[1], 1)
    variances = [draws[:, :n].mean(axis=1).var() for n in settings.sizes]
    return Finding(
        hypotheses=(Hypothesis("smallest n", ">=", 2, min(settings.sizes)),),
        conclusions=(Conclusion.of_trend("variance over n", "<=", -0.9, settings.sizes, variances),),
    )


def main() -> None:
    for independent in (True, False):
        settings = Settings(sizes=[8, 16, 32, 64, 128], repeats=4000, independent=independent)
        print(f"independent draws: {independent}: {mean_of_draws(settings, seed=0).verdict}")


if __name__ == "__main__":
    main()
