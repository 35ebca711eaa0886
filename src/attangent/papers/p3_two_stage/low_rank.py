"""Edited models on disk as factors: W = A B of few columns takes less room than W and less time to apply."""

import inspect
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError, loading
from attangent._core.files import write_json, write_whole

CODE_FILE = "low_rank.py"
_AUTO = {
    "ForCausalLM": "AutoModelForCausalLM",
    "LMHeadModel": "AutoModelForCausalLM",
    "ForMaskedLM": "AutoModelForMaskedLM",
    "ForSequenceClassification": "AutoModelForSequenceClassification",
    "ForTokenClassification": "AutoModelForTokenClassification",
    "ForConditionalGeneration": "AutoModelForSeq2SeqLM",
    "ForImageClassification": "AutoModelForImageClassification",
}


class LowRank(nn.Module):
    """x A B + b: a linear module of this rank."""

    def __init__(self, inputs: int, outputs: int, rank: int, bias: bool, like: torch.Tensor):
        super().__init__()
        self.first = nn.Linear(inputs, rank, bias=False, dtype=like.dtype, device=like.device)
        self.second = nn.Linear(rank, outputs, bias=bias, dtype=like.dtype, device=like.device)

    @property
    def weight(self) -> torch.Tensor:
        """(outputs, inputs), as a linear module has it."""
        return self.second.weight @ self.first.weight

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x))


def make_low_rank(model: Any, ranks: Mapping[str, int]) -> None:
    """Put an untrained LowRank in the place of each linear module named."""
    for name, rank in ranks.items():
        whole = model.get_submodule(name)
        weight, bias = whole.weight, getattr(whole, "bias", None)
        turned = type(whole).__name__ == "Conv1D"  # transformers' linear layer that stores (inputs, outputs)
        outputs, inputs = weight.shape[::-1] if turned else weight.shape
        model.set_submodule(name, LowRank(inputs, outputs, rank, bias is not None, weight))


@contextmanager
def in_factors(model: nn.Module, ranks: Mapping[str, int]) -> Iterator[None]:
    """While in it, the modules named, whose weights are of these ranks, are factors; then they come back."""
    whole = {name: model.get_submodule(name) for name in ranks}
    make_low_rank(model, ranks)
    try:
        for name, module in whole.items():
            _fill(model.get_submodule(name), module)
        yield
    finally:
        for name, module in whole.items():
            model.set_submodule(name, module)


@torch.no_grad()
def _fill(factors: Any, whole: Any) -> None:
    """The best factors of a weight, its singular values shared by both."""
    weight = whole.weight.T if type(whole).__name__ == "Conv1D" else whole.weight
    U, S, Vh = torch.linalg.svd(weight.double(), full_matrices=False)
    rank, root = factors.first.weight.shape[0], S.sqrt()
    factors.second.weight.copy_(U[:, :rank] * root[:rank])
    factors.first.weight.copy_(root[:rank, None] * Vh[:rank])
    if factors.second.bias is not None:
        factors.second.bias.copy_(whole.bias)


def smaller_as_factors(weight: Tensor, rank: int) -> bool:
    return rank * sum(weight.shape) < weight.numel()


def write_low_rank(model: Any, ranks: Mapping[str, int], folder: Path) -> None:
    """The model with these modules as factors, and the code by which plain transformers reads them.

    The configuration has a type of its own: who does not run that code is refused, where the known type would
    read the model without its factors.
    """
    with in_factors(model, ranks):
        model.save_pretrained(folder, save_original_format=False)
    kind, file = type(model).__name__, folder / "config.json"
    classes = {"AutoConfig": "LowRankConfig", "AutoModel": f"LowRank{kind}", _auto(kind): f"LowRank{kind}"}
    config = json.loads(file.read_text())
    own = {
        "model_type": f"low_rank_{config['model_type']}",
        "base_model_type": config["model_type"],
        "low_rank": dict(ranks),
        "auto_map": {auto: f"{Path(CODE_FILE).stem}.{name}" for auto, name in classes.items()},
    }
    write_json(file, config | own)
    write_whole(folder / CODE_FILE, _code(kind, type(model.config).__name__, own["model_type"]))


def _auto(kind: str) -> str:
    return next((auto for ending, auto in _AUTO.items() if kind.endswith(ending)), "AutoModel")


def _code(kind: str, config: str, model_type: str) -> str:
    return f'''"""A model with some weights as factors; read it with trust_remote_code=True."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import {config}, {kind}


{inspect.getsource(LowRank)}

{inspect.getsource(make_low_rank)}

class LowRankConfig({config}):
    model_type = "{model_type}"


class LowRank{kind}({kind}):
    config_class = LowRankConfig

    def __init__(self, config, *args, **options):
        super().__init__(config, *args, **options)
        make_low_rank(self, config.low_rank)
'''


def is_low_rank(folder: str | Path) -> bool:
    """Whether a folder was written by `save_factors`."""
    return "low_rank" in _config(Path(folder))


def _config(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def load_low_rank(folder: str | Path) -> Any:
    """The model that `save_factors` wrote, its factors as they are; no code in the folder is run."""
    import transformers

    given = _config(Path(folder))
    ranks, kind = given.get("low_rank"), str((given.get("architectures") or [""])[0])
    if not isinstance(ranks, dict) or not all(isinstance(rank, int) and rank > 0 for rank in ranks.values()):
        raise AttangentError(f"{folder} has the ranks {ranks}, expected a folder written by save_factors")
    base: Any = getattr(transformers, kind, None)
    if not isinstance(base, type) or not issubclass(base, transformers.PreTrainedModel):
        raise AttangentError(f"{folder} names the model {kind!r}, which transformers does not have")
    fields = {name: value for name, value in given.items() if name not in ("auto_map", "model_type")}
    with loading(f"no factors can be loaded from {folder}"):
        config = base.config_class.from_dict(fields)  # type: ignore[union-attr]
        return (
            _low_rank_kind(base, ranks).from_pretrained(folder, config=config, trust_remote_code=False).eval()
        )


def _low_rank_kind(base: Any, ranks: Mapping[str, int]) -> Any:
    def __init__(self: Any, config: Any, *args: Any, **options: Any) -> None:
        base.__init__(self, config, *args, **options)
        missing = [name for name in ranks if not hasattr(_module(self, name), "weight")]
        if missing:
            raise AttangentError(f"the ranks name {', '.join(missing)}, which {base.__name__} does not have")
        make_low_rank(self, ranks)

    return type(base.__name__, (base,), {"__init__": __init__, "__module__": __name__})


def _module(model: nn.Module, name: str) -> nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None
