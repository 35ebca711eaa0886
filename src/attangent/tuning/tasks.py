"""The kinds of task a model can be tuned for, and what each needs from transformers and peft."""

from dataclasses import dataclass
from typing import Literal

TaskKind = Literal["classification", "regression", "causal-lm", "image-classification"]


@dataclass(frozen=True)
class Needs:
    """Which transformers class loads the model, what peft calls the task, whether there is a classifier.

    values: the classifier gives one number for each row instead of a score for each class.
    """

    auto_class: str
    peft_task: str | None
    classifier: bool
    values: bool = False


NEEDS: dict[str, Needs] = {
    "classification": Needs("AutoModelForSequenceClassification", "SEQ_CLS", True),
    "regression": Needs("AutoModelForSequenceClassification", "SEQ_CLS", True, True),
    "causal-lm": Needs("AutoModelForCausalLM", "CAUSAL_LM", False),
    "image-classification": Needs("AutoModelForImageClassification", None, True),
}
