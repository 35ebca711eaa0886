# %% [markdown]
# # See a model learn syntax before semantics
#
# Ask a half-trained language model for the capital of France. Early in training it answers with any word. Later it
# answers with *a city*, but the wrong one. Only at the end is it Paris. It learns which *kind* of answer fits
# (syntax) before it learns which answer is right (semantics).
#
# In this tutorial you train a tiny GPT-2 on made-up facts, split its loss into these two parts exactly, and let
# attangent find in the curves when each part was learned and how sure that is. You need
# `pip install "attangent[adapters]"`.

# %%
import os

import matplotlib.pyplot as plt
import pandas as pd

from attangent.papers.p3_two_stage.facts.corpora import TypedFacts
from attangent.papers.p3_two_stage.facts.language import LanguageTraining, train_on_facts
from attangent.stages import StageDetector

SMALL = "TUTORIAL_SMALL" in os.environ  # the tests run this page with fewer facts
sizes = {"relations": 3, "answers": 4, "subjects": 12} if SMALL else {"subjects": 150}
corpus = TypedFacts(**sizes, facts_per_subject=2).corpus()
for example in corpus.training[:3]:
    print(example.prompt, "->", example.answer)

# %% [markdown]
# Each fact has a relation ("colour", say), and each relation has its answers. An answer of the right relation
# is *of the right type*. The loss of the answer then splits without remainder:
#
#     -log p(answer) = -log p(type) - log p(answer | type)
#
# The first part is syntax, the second semantics.
#
# ## Train and listen
#
# `StageDetector` reads the two losses while the training runs. It reports when a loss begins to fall after a plateau
# and when that fall is over. A smooth decay from the first step is not a stage: nothing waited there. The losses
# are read four times per epoch, so that a step of the detector is a quarter of an epoch.

# %%
detector = StageDetector(["type", "answer"])
readings_per_epoch = 4


def listen(epoch, reading):
    losses = {"type": reading.type_loss, "answer": reading.answer_loss}
    for event in detector.update(round(epoch * readings_per_epoch), losses):
        print(f"epoch {epoch:.1f}: {event}")


training = LanguageTraining(
    epochs=6 if SMALL else 30,
    width=16 if SMALL else 64,
    readings_per_epoch=readings_per_epoch,
    most_examples=300,
)
run = train_on_facts(corpus, training, on_reading=listen)

# %% [markdown]
# Its reports during the run were tentative. With all readings it says:

# %%
print(detector.summary())

# %%
readings = run.readings
figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.2), layout="constrained")
left.plot(readings.epoch, readings.type_loss, color="#3a7ca5", label="type (syntax)")
left.plot(readings.epoch, readings.answer_loss, color="#c0563b", label="answer, given its type (semantics)")
for stage in detector.stages:
    span = [stage.onset / readings_per_epoch, (stage.completion or stage.onset) / readings_per_epoch]
    left.axvspan(*span, color="#3a7ca5" if stage.name == "type" else "#c0563b", alpha=0.12, lw=0)
left.set(xlabel="epoch", ylabel="loss", title="two parts of one loss; stages shaded")
right.plot(readings.epoch, readings.syntax, color="#3a7ca5", label="answers of the right type")
right.plot(readings.epoch, readings.semantics, color="#c0563b", label="right answers")
right.set(xlabel="epoch", title="what it answers", ylim=(0, 1.03))
for axes in (left, right):
    axes.legend(frameon=False, fontsize=8)
    axes.spines[["top", "right"]].set_visible(False)

# %%
levels = [0.5, 0.8, 0.95]
pd.DataFrame(
    {
        "share reached": levels,
        "right type at epoch": [run.first("syntax", level) for level in levels],
        "right answer at epoch": [run.first("semantics", level) for level in levels],
    }
)

# %% [markdown]
# ## On your own run
#
# You need a table with the columns `group`, `step`, `loss`: one group for each kind of example you care about.
#
# - From a CSV, a `trainer_state.json` or TensorBoard files: `attangent stages metrics.csv --plot stages.png`.
# - While a `transformers.Trainer` runs: `Trainer(..., callbacks=[stage_callback(detector, losses, every=20)])`.
# - How often the detector is wrong, measured on curves with known stages: [Find stages in a run](../stages.md).
