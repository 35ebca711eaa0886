"""The options of `attangent tune`, which `plan` has too, and the request that they make."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from attangent.tuning.data.columns import Columns
    from attangent.tuning.request import Tuning

Model = Annotated[str | None, typer.Option(help="A Hugging Face id, or the folder of a saved model.")]
Rows = Annotated[
    Path | None, typer.Option(help="A .jsonl, .csv, .tsv or .parquet file, or a folder of images.")
]
Out = Annotated[Path, typer.Option(help="Where adapters, metrics and checkpoints go.")]
Evaluation = Annotated[
    Path | None, typer.Option("--eval", help="The same, to score on; without it a fifth of the rows.")
]
Task = Annotated[str, typer.Option(help="classification, regression or causal-lm.")]
MethodName = Annotated[
    str | None,
    typer.Option(
        help="ntk, lora, prefix, head, probe, full, ntk+lora, peft or auto; by default ntk, "
        "and for images lora."
    ),
]
Config = Annotated[Path | None, typer.Option(help="A TOML file with tables method, method.ntk, training.")]
Layout = Annotated[
    str | None, typer.Option(help="boolq, cb, copa, multirc, rte or columns; known by the keys by default.")
]
TextColumns = Annotated[
    list[str] | None, typer.Option(help="A column with texts; may be repeated. All by default.")
]
LabelColumn = Annotated[str | None, typer.Option(help="The column of the label; `label` by default.")]
MaxTokens = Annotated[int, typer.Option(help="Tokens of each text feature, or of a whole text.")]
PoolingName = Annotated[
    str, typer.Option(help="What the classifier reads: first, mean, or what the model declares.")
]
StartName = Annotated[
    str, typer.Option(help="The classifier's first weights: closed-form, cross-validated or random.")
]
ValidationName = Annotated[
    str, typer.Option(help="Rows kept apart, to choose how much to keep: none, random or unlike.")
]
Search = Annotated[
    bool,
    typer.Option(
        "--search/--no-search",
        help="Seek rate and length of training by a fifth of the rows, then train on all: 2 to 3 runs.",
    ),
]
Quantised = Annotated[
    str | None, typer.Option(help="int8: hold the frozen model's weights in 8 bits (needs torchao).")
]
Beside = Annotated[
    Path | None, typer.Option(help="The folder of a peft adapter that acts while a state is trained.")
]
ClassWeights = Annotated[
    bool, typer.Option("--class-weights", help="Let every class count the same in the loss.")
]
Top = Annotated[int | None, typer.Option(help="Adapt only the last so many layers.")]
Rate = Annotated[float | None, typer.Option(help="By default the method's own.")]
Epochs = Annotated[float | None, typer.Option(help="Passes over the training data; 4 by default.")]
Batch = Annotated[int | None, typer.Option(help="Examples for each step and process; 16 by default.")]
Seeds = Annotated[int, typer.Option(help="How many seeds to run.")]

_AS_GIVEN = ("model", "train", "task", "layout", "max_tokens", "pooling", "class_weights")


def request_of(options: Mapping[str, Any], **settled: Any) -> "Tuning":
    """What is asked of `tune` or `plan`, from the options that both have by their names, and the rest."""
    from attangent.tuning.request import Tuning

    columns = _columns_of(options["text_column"], options["label_column"])
    given = {name: options[name] for name in _AS_GIVEN}
    return Tuning(evaluate=options["eval_"], columns=columns, **given, **settled)


def _columns_of(text: list[str] | None, label: str | None) -> "Columns | None":
    if not text and label is None:
        return None
    from attangent.tuning.data.columns import Columns

    return Columns(tuple(text or ()), label or "label")
