"""Edited models on disk as factors: W = A B of low rank takes less space than W and less time to apply."""

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
    """Replace each named linear module by an uninitialised LowRank."""
    for name, rank in ranks.items():
        full = model.get_submodule(name)
        turned = type(full).__name__ == "Conv1D"  # transformers' linear layer that stores (inputs, outputs)
        outputs, inputs = full.weight.shape[::-1] if turned else full.weight.shape
        has_bias = getattr(full, "bias", None) is not None
        model.set_submodule(name, LowRank(inputs, outputs, rank, has_bias, full.weight))


@contextmanager
def in_factors(model: nn.Module, ranks: Mapping[str, int]) -> Iterator[None]:
    """Replace the named modules, whose weights have these ranks, by factors; restore them at the end."""
    full = {name: model.get_submodule(name) for name in ranks}
    make_low_rank(model, ranks)
    try:
        for name, module in full.items():
            _fill(model.get_submodule(name), module)
        yield
    finally:
        for name, module in full.items():
            model.set_submodule(name, module)


@torch.no_grad()
def _fill(factors: Any, full: Any) -> None:
    """Write the best factors of a weight; both get the square roots of its singular values."""
    weight = full.weight.T if type(full).__name__ == "Conv1D" else full.weight
    U, S, Vh = torch.linalg.svd(weight.double(), full_matrices=False)
    rank = factors.first.weight.shape[0]
    root = S.sqrt()
    factors.second.weight.copy_(U[:, :rank] * root[:rank])
    factors.first.weight.copy_(root[:rank, None] * Vh[:rank])
    if factors.second.bias is not None:
        factors.second.bias.copy_(full.bias)


def smaller_as_factors(weight: Tensor, rank: int) -> bool:
    """Return whether two factors of this rank hold fewer numbers than the weight."""
    return rank * sum(weight.shape) < weight.numel()


def write_low_rank(model: Any, ranks: Mapping[str, int], folder: Path) -> None:
    """Write the model with these modules as factors, and the code by which plain transformers reads them."""
    with in_factors(model, ranks):
        model.save_pretrained(folder, save_original_format=False)
    kind = type(model).__name__
    file = folder / "config.json"
    classes = {"AutoConfig": "LowRankConfig", "AutoModel": f"LowRank{kind}", _auto(kind): f"LowRank{kind}"}
    config = json.loads(file.read_text())
    # A new model type: under the known one, transformers would load the model and ignore the factors.
    changes = {
        "model_type": f"low_rank_{config['model_type']}",
        "base_model_type": config["model_type"],
        "low_rank": dict(ranks),
        "auto_map": {auto: f"{Path(CODE_FILE).stem}.{name}" for auto, name in classes.items()},
    }
    write_json(file, config | changes)
    write_whole(folder / CODE_FILE, _code(kind, type(model.config).__name__, changes["model_type"]))


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


def _config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return config if isinstance(config, dict) else {}


def load_low_rank(folder: str | Path) -> Any:
    """Load a model that `save_factors` wrote, without running code from the folder.

    Args:
        folder: The folder.

    Returns:
        The model in eval mode, with its factors.

    Raises:
        AttangentError: If the folder was not written by `save_factors` or is damaged.
    """
    import transformers

    saved = _config(Path(folder))
    ranks = saved.get("low_rank")
    kind = str((saved.get("architectures") or [""])[0])
    if not isinstance(ranks, dict) or not all(isinstance(rank, int) and rank > 0 for rank in ranks.values()):
        raise AttangentError(f"{folder} has the ranks {ranks}, expected a folder written by save_factors")
    base: Any = getattr(transformers, kind, None)
    if not isinstance(base, type) or not issubclass(base, transformers.PreTrainedModel):
        raise AttangentError(f"{folder} names the model {kind!r}, which transformers does not have")
    fields = {name: value for name, value in saved.items() if name not in ("auto_map", "model_type")}
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
