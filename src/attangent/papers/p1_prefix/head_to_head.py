"""Compare tuning methods on one split of a text task; frozen lower layers of an encoder run only once.

If only the top layers of an encoder are adapted, the layers below give the same hidden states in every
epoch and for every method. `split_trunk` cuts a model there: the trunk turns examples into hidden states
once, and the top is a separate model that takes those hidden states as its embeddings.
"""

import copy
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.checks import check_size
from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.tuning.data.columns import TextColumns
from attangent.tuning.data.text import TextTask, read_task
from attangent.tuning.encoding import Collate, Encoded, Padding, encode_task
from attangent.tuning.loading import load_model, load_tokenizer, model_limit, pad_with
from attangent.tuning.methods import Method
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.request import TrainingSettings
from attangent.tuning.running import run_method
from attangent.tuning.tasks import TaskKind
from attangent.tuning.training import score

Run = dict[str, Any]
_PAIR = TextColumns(("premise", "hypothesis"))


@dataclass(frozen=True)
class TaskSplit:
    """Files of text pairs in the layout of CommitmentBank, and the sizes of a split; seeds draw other splits.

    Attributes:
        name: Name of the task.
        files: One pool of training, validation and test examples.
        train: Number of training examples.
        validation: Number of examples left for validation; no method of a trial chooses by them.
        test: Number of test examples.
        max_tokens: Maximum number of tokens per text feature.
    """

    name: str
    files: tuple[Path, ...]
    train: int
    validation: int
    test: int
    max_tokens: int

    def __post_init__(self) -> None:
        for path in self.files:
            if not path.exists():
                raise AttangentError(f"task {self.name}: there is no {path}")
        for name in ("train", "validation", "test", "max_tokens"):
            check_size(name, getattr(self, name))


@dataclass(frozen=True)
class PreparedTrial:
    """A model and the rows of one split, ready for any method."""

    model: Any
    kind: TaskKind
    collate: Collate
    train: list[Encoded]
    test: list[Encoded]


def prepare_trial(folder: str, trial: TaskSplit, top: int, seed: int) -> PreparedTrial:
    """Read, split and encode the task, and run the layers below the `top` ones, which alone train."""
    parts = split_task(trial, seed)
    model = load_model(folder, "classification", parts[0].labels, seed)
    tokenizer = load_tokenizer(folder)
    pad_with(model, tokenizer)
    rows = [encode_task(part, tokenizer, trial.max_tokens, model_limit(model)) for part in parts]
    collate = Padding(tokenizer.pad_token_id)
    trunk, upper = split_trunk(model, top)
    return PreparedTrial(upper, "classification", collate, *(trunk.encode(part, collate) for part in rows))


def runs_of(
    trial: PreparedTrial, methods: dict[str, Method], training: TrainingSettings, seed: int
) -> dict[str, Run]:
    """Train each method and score it on the test rows, by label."""
    return {label: _one_run(trial, method, training, seed) for label, method in methods.items()}


def _one_run(trial: PreparedTrial, method: Method, training: TrainingSettings, seed: int) -> Run:
    data = PreparedTask(copy.deepcopy(trial.model), trial.kind, trial.train, trial.collate)
    seeded = replace(training, seed=seed, checkpoint_steps=0)
    with tempfile.TemporaryDirectory() as folder:
        result = run_method(data, method, seeded, "random", Path(folder))
        return {"test": score(result.trainer, trial.test, trial.kind), **result.metrics}


def split_task(trial: TaskSplit, seed: int) -> tuple[TextTask, TextTask]:
    """Draw disjoint training and test examples from the seed."""
    pool = read_task(trial.files, columns=_PAIR)
    order = torch.randperm(len(pool), generator=generator(seed, "split")).tolist()
    needed = trial.train + trial.validation + trial.test
    if needed > len(pool):
        raise AttangentError(
            f"task {trial.name} has {len(pool)} examples, {needed} were requested; request fewer."
        )
    rest = order[trial.train + trial.validation :]
    return pool.take(order[: trial.train]), pool.take(rest[: trial.test])


_BATCH = 32


@dataclass(frozen=True)
class Trunk:
    """The frozen model, and the layer at which it is cut."""

    model: nn.Module
    cut: nn.Module

    def encode(
        self, rows: Sequence[Encoded], collate: Callable[[Sequence[Encoded]], dict[str, Tensor]]
    ) -> list[Encoded]:
        """Replace tokens by hidden states; rows of similar length share a batch."""
        order = sorted(range(len(rows)), key=lambda i: len(rows[i]["attention_mask"]))
        encoded: dict[int, Encoded] = {}
        for start in range(0, len(order), _BATCH):
            chosen = order[start : start + _BATCH]
            states = self._states(collate([rows[i] for i in chosen]))
            encoded |= {i: _row(rows[i], state) for i, state in zip(chosen, states, strict=True)}
        return [encoded[i] for i in range(len(rows))]

    def _states(self, inputs: dict[str, Tensor]) -> Tensor:
        seen: list[Tensor] = []

        def stop(_: nn.Module, args: tuple[Any, ...], named: dict[str, Any]) -> None:
            seen.append(args[0] if args else named["hidden_states"])
            raise _Reached

        handle = self.cut.register_forward_pre_hook(stop, with_kwargs=True)
        try:
            with torch.inference_mode():
                self.model(**{name: value for name, value in inputs.items() if name != "labels"})
        except _Reached:
            pass
        finally:
            handle.remove()
        return seen[0].clone()


def _row(row: Encoded, state: Tensor) -> Encoded:
    unchanged = {name: row[name] for name in ("attention_mask", "labels") if name in row}
    return {"inputs_embeds": state[: len(row["attention_mask"])].clone(), **unchanged}


class _Reached(Exception):
    """Raised at the cut, so that the layers above do not run."""


def split_trunk(model: Any, top: int) -> tuple[Trunk, Any]:
    """Return the trunk below the last `top` layers of a BERT classifier, and those layers as a model."""
    if type(model).__name__ != "BertForSequenceClassification":
        raise AttangentError(f"{type(model).__name__} cannot be cut; use a BERT classifier")
    layers = model.bert.encoder.layer
    if not 1 <= top < len(layers):
        raise AttangentError(f"top is {top}, expected 1 to {len(layers) - 1} of {len(layers)} layers")
    model.eval()
    return Trunk(model, layers[-top]), _top(model, top)


def _top(model: Any, top: int) -> Any:
    upper = copy.deepcopy(model)
    layers = upper.bert.encoder.layer
    below = len(layers) - top
    del layers[:below]
    upper.config.num_hidden_layers = top
    upper.bert.embeddings.forward = _pass_states
    for module in layers.modules():
        if isinstance(getattr(module, "layer_idx", None), int):
            module.layer_idx -= below
    layers[-1].attention.output.register_forward_pre_hook(_first_token)
    return upper


def _pass_states(*_: Any, inputs_embeds: Tensor, **__: Any) -> Tensor:
    """Replace the embeddings of a model whose inputs are hidden states."""
    return inputs_embeds


def _first_token(_: nn.Module, args: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    """Run the layers after the last attention only for the token that the classifier reads."""
    return tuple(states[:, :1] for states in args)
