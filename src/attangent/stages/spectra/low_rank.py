"""Edited models on disk as factors: W = A B of few columns takes less room than W and less time to apply."""

import inspect
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from attangent._errors import AttangentError
from attangent._files import write_whole

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
    """The model with these modules as factors, and the code by which plain transformers reads them."""
    kind = type(model).__name__
    auto = {name: f"{Path(CODE_FILE).stem}.LowRank{kind}" for name in ("AutoModel", _auto(kind))}
    config = model.config
    had = getattr(config, "auto_map", None)
    config.low_rank, config.auto_map = dict(ranks), auto
    try:
        with in_factors(model, ranks):
            model.save_pretrained(folder, save_original_format=False)
    finally:
        del config.low_rank
        config.auto_map = had
        if had is None:
            del config.auto_map
    write_whole(folder / CODE_FILE, _code(kind))


def _auto(kind: str) -> str:
    return next((auto for ending, auto in _AUTO.items() if kind.endswith(ending)), "AutoModel")


def _code(kind: str) -> str:
    return f'''"""A model with some weights as factors; read it with trust_remote_code=True."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import {kind}


{inspect.getsource(LowRank)}

{inspect.getsource(make_low_rank)}

class LowRank{kind}({kind}):
    def __init__(self, config, *args, **options):
        super().__init__(config, *args, **options)
        make_low_rank(self, config.low_rank)
'''


def load_low_rank(folder: str | Path) -> Any:
    """The model that `save_factors` wrote, its factors as they are; no code in the folder is run."""
    import transformers

    config: Any = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False)
    ranks, kind = getattr(config, "low_rank", None), (config.architectures or [""])[0]
    base = getattr(transformers, kind, None)
    if not isinstance(base, type) or not issubclass(base, transformers.PreTrainedModel):
        raise AttangentError(f"{folder} names the model {kind!r}, which transformers does not have")
    if not isinstance(ranks, dict) or not all(isinstance(rank, int) and rank > 0 for rank in ranks.values()):
        raise AttangentError(f"{folder} has the ranks {ranks}, expected a folder written by save_factors")
    return _low_rank_kind(base, ranks).from_pretrained(folder).eval()


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
