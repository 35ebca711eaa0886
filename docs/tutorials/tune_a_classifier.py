# %% [markdown]
# # Tune a classifier on 300 examples and compare with LoRA
#
# You have 300 labelled messages and a small pretrained model. Three ways to make a classifier of them:
#
# - **probe**: leave the model unchanged and fit a logistic regression on its outputs. Nothing inside is trained.
# - **lora**: train small low-rank matrices added to the model's weights (peft's LoRA, the usual choice).
# - **ntk**: train a *prefix state* in every attention layer. It acts like a very long trainable prefix but has
#   constant size. This is attangent's own method.
#
# All three use the same rows, the same model and their default settings. You need
# `pip install "attangent[adapters]"`; the model here is MiniLM, an encoder of 22 million numbers.

# %%
import os
import shutil
from pathlib import Path

import matplotlib.pyplot as plt
import pandas as pd

import attangent
from attangent.tuning import Method, TrainingSettings, TuningRequest, tune

SMALL = "TUTORIAL_SMALL" in os.environ  # the tests run this page with a toy model
model = os.environ.get("TUTORIAL_ENCODER", "sentence-transformers/all-MiniLM-L6-v2")
train = pd.read_csv("data/messages-train.csv")
test = pd.read_csv("data/messages-test.csv")
if SMALL:
    train, test = train[:40], test[:20]
print(len(train), "messages to train on,", len(test), "to test on")
print(train.label.value_counts().to_dict())
train.head(4)

# %% [markdown]
# The messages come from templates. The test messages come from *other* templates than the training messages, so a
# method that learns sentences by heart is found out.

# %%
runs = Path("runs")
shutil.rmtree(runs, ignore_errors=True)
train.to_csv("train.csv", index=False)
test.to_csv("test.csv", index=False)
training = TrainingSettings(epochs=1.0) if SMALL else TrainingSettings()
scores = {}
for method in ("probe", "lora", "ntk"):
    request = TuningRequest(
        model, Path("train.csv"), Path("test.csv"), method=Method(method), training=training
    )
    scores[method] = tune(request, runs / method)[0]
table = pd.DataFrame(scores).T[["eval_accuracy", "parameters", "seconds"]]
table

# %% [markdown]
# `tune` is what the command `attangent tune` calls. `eval_accuracy` is the share of test messages with the right
# label. `parameters` counts the numbers that were trained, without the classifier. `seconds` is the clock of this run, on
# one core that had other work too; how fast the methods are is measured in [Benchmarks](../benchmarks.md).

# %%
tuned = attangent.load_tuned(runs / "ntk")
for found, text in zip(tuned.predict(list(test.text[:4])), test.text[:4], strict=True):
    print(f"{found.label} ({found.probability:.0%}): {text}")

# %% [markdown]
# ## Where does it go wrong?
#
# Every prediction has a probability. A classifier you can use should be unsure when it is wrong.

# %%
found = {method: attangent.load_tuned(runs / method).predict(list(test.text)) for method in scores}
figure, (left, right) = plt.subplots(1, 2, figsize=(8, 3), layout="constrained")
colours = {"probe": "#b8b8b8", "lora": "#3a7ca5", "ntk": "#c0563b"}
left.bar(list(scores), [scores[m]["eval_accuracy"] for m in scores], color=[colours[m] for m in scores])
left.set(ylim=(0, 1), title="accuracy on unseen templates")
for method, predictions in found.items():
    sure = pd.DataFrame(
        {
            "probability": [p.probability for p in predictions],
            "right": [p.label == label for p, label in zip(predictions, test.label, strict=True)],
        }
    ).sort_values("probability", ascending=False)
    share = sure.right.expanding().mean()
    right.plot([k / len(sure) for k in range(1, len(sure) + 1)], share, color=colours[method], label=method)
right.set(title="accuracy on the surest predictions", xlabel="share of messages answered", ylim=(0.5, 1.02))
right.legend(frameon=False)
for axes in (left, right):
    axes.spines[["top", "right"]].set_visible(False)

# %% [markdown]
# ## What next
#
# - On the command line: `attangent tune --model MODEL --train messages.csv --out run`, then
#   `attangent predict --adapter run new.csv --out answers.csv`.
# - This is one task and one run; the order of two methods that lie close can turn with another split of the rows.
#   Means over several tasks and splits are on the page [Tune on your files](../tuning.md), made by commands that
#   stand beside them.
