# %% [markdown]
# # Audit a theorem and add another
#
# A theorem says: *if* these conditions hold, *then* this number is below that bound. Both halves can be measured.
# attangent keeps statements of five papers as **claims**: functions that build the setting, measure conditions and
# conclusions, and return the numbers. The **verdict** follows from the numbers by fixed rules.
#
# In this tutorial you
#
# 1. run two claims and read their verdicts,
# 2. look at the numbers of one that is wrong,
# 3. write a claim about another statement.

# %%
import os

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from attangent import audit
from attangent.audit import Conclusion, Finding, Hypothesis, Settings

SMALL = "TUTORIAL_SMALL" in os.environ  # the tests run this page with one seed
run = audit.run(["P2/definition-3.6", "P2/equation-25", "P2/equation-25-repaired"], seeds=1 if SMALL else 3)
for result in run.results():
    print(f"{result.claim}: {result.verdict.value}")

# %% [markdown]
# `P2` is the paper "Exploring the Frontiers of Softmax"; `equation-25` is one of its formulas. Each claim ran with
# three *seeds*: numbers that fix all random draws, so that you get the same figures when you run it again.
#
# ## What was measured?

# %%
pd.set_option("display.max_colwidth", 90)
columns = ["claim", "conclusion", "relation", "bound", "measured", "verdict"]
run.frame().query("seed == 0 and claim != 'P2/equation-25-repaired'")[columns]

# %%
claim = audit.get("P2/equation-25")
print(claim.place)
print(claim.statement)

# %% [markdown]
# The paper prints an update rule and calls it the gradient of a loss. The measured relative distance between the two is
# near 1 instead of 0, so the statement is *violated*. The other two lines are our comparisons: they explain
# and decide nothing. The repaired statement, `equation-25-repaired`, says what the update really
# is, and holds.
#
# ## Your statement
#
# Take a statement that many people believe: *the largest of n standard normal numbers is at most sqrt(2 log n)*.
# A check takes settings and a seed and returns a `Finding`. This one measures the statement in two readings, as two
# *parts*: that no draw exceeds the bound, and that the mean of the largest does not.


# %%
def largest_normal(settings: Settings, seed: int) -> Finding:
    draw = np.random.default_rng(seed)
    largest = [
        np.mean([draw.standard_normal(n).max() for _ in range(settings.repeats)]) for n in settings.sizes
    ]
    ratio = [mean / np.sqrt(2 * np.log(n)) for mean, n in zip(largest, settings.sizes, strict=True)]
    n = settings.sizes[0]
    above = np.mean([draw.standard_normal(n).max() > np.sqrt(2 * np.log(n)) for _ in range(settings.repeats)])
    return Finding(
        hypotheses=(Hypothesis("n", ">=", 2, min(settings.sizes)),),
        conclusions=(
            Conclusion("share of draws above sqrt(2 log n)", "<=", 0.0, float(above), part="always below"),
            Conclusion(
                "largest mean / sqrt(2 log n)", "<=", 1.0, float(max(ratio)), part="below in the mean"
            ),
        ),
        numbers={f"ratio at n = {size}": float(r) for size, r in zip(settings.sizes, ratio, strict=True)},
    )


settings = Settings(sizes=[16, 64, 256, 1024, 4096], repeats=40 if SMALL else 400)
findings = [largest_normal(settings, seed) for seed in range(3)]
parts = [{name: judged.verdict.value for name, judged in found.judgements.items()} for found in findings]
pd.DataFrame(parts, index=pd.Index([0, 1, 2], name="seed"))

# %% [markdown]
# The check did not choose these verdicts. It returned numbers; the rules did the rest. "Always below" fails: a
# single draw above the bound is a counter-example. "Below in the mean" holds.

# %%
figure, axes = plt.subplots(figsize=(5.5, 2.8), layout="constrained")
for seed, found in enumerate(findings):
    axes.semilogx(settings.sizes, list(found.numbers.values()), "o-", ms=4, label=f"seed {seed}")
axes.axhline(1, color="#555", ls="--", lw=1)
axes.set(xlabel="n", ylabel="mean of the largest / sqrt(2 log n)", ylim=(0.6, 1.05))
axes.spines[["top", "right"]].set_visible(False)
_ = axes.legend(frameon=False)

# %% [markdown]
# ## Keep it
#
# To keep a claim, put it into a package. This command writes one that runs, with a test:
#
#     attangent new-claims MyPaper
#     pip install -e my_paper_claims
#     attangent audit --paper MyPaper
#
# Your check goes into `section_1.py` below the decorator `@claim("MyPaper/lemma-1", place=..., title=...,
# statement=..., quick={"sizes": ..., "repeats": ...})`. It is then listed, run, stored and reported like the others.
# The rules for verdicts are on [Verdicts explained](../verdicts.md); more on writing claims stands in
# [Add a claim](../extend/claim.md).
