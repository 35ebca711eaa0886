"""Extreme numbers: short floats, masked rows, huge logits and masses, padding, checkpointing, compilation.

Each case compares attention with a prefix, alone or in a small model, with a reference, and has a bound.
"""

import copy
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from attangent import AttangentError
from attangent.adapters import NTKConfig, attach
from attangent.attention import RaggedTokens, ntk_attention
from attangent.compression.session import generate

_VOCABULARY = 50
_POSITIONS = 24


class Measured(NamedTuple):
    """The error of one case relative to the largest value of its reference."""

    case: str
    reference: str
    error: float
    bound: float

    @property
    def well(self) -> bool:
        """NaN is never within a bound."""
        return self.error <= self.bound


def relative(value: Tensor, reference: Tensor) -> float:
    """Return max |value - reference| / max(1e-30, max |reference|)."""
    value, reference = value.detach().double(), reference.detach().double()
    return float((value - reference).abs().max() / reference.abs().max().clamp_min(1e-30))


def _tokens(length: int = 12, scale: float = 1.0) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    q, k, v = (torch.randn(2, 4, length, 16, generator=draw, dtype=torch.float64) for _ in "qkv")
    return scale * q, k, v


def _prefix(dtype: torch.dtype = torch.float32, masses: Tensor | None = None) -> RaggedTokens:
    """Return a prefix of 5 tokens per head; keys and values are exact in every type of at least float32."""
    draw = torch.Generator().manual_seed(1)
    keys, values = (list(torch.randn(4, 5, 16, generator=draw).to(dtype)) for _ in "kv")
    masses = torch.ones(5) if masses is None else masses
    return RaggedTokens.of(keys, values, [masses.to(dtype)] * 4)


def _compare(dtype: torch.dtype, scale: float = 1.0, masses: Tensor | None = None) -> float:
    """Return the error of `dtype` against float64, both from inputs rounded to `dtype`."""
    low = [each.to(dtype) for each in _tokens(scale=scale)]
    exact = ntk_attention(*(each.double() for each in low), _prefix(torch.float64, masses))
    return relative(ntk_attention(*low, _prefix(masses=masses)), exact)


def _masked(with_prefix: bool) -> float:
    """Return the error of rows that see no token: the prefix alone, or zero without it."""
    q, k, v = (each.float() for each in _tokens())
    hidden = torch.zeros(2, 1, 12, 12, dtype=torch.bool)
    if not with_prefix:
        out = ntk_attention(q, k, v, _prefix(masses=torch.zeros(5)), mask=hidden)
        return float(out.abs().max())
    prefix = _prefix()
    keys, values, _ = prefix.tokens()
    weights = torch.softmax(q @ keys.reshape(1, 4, 5, 16).mT / 4, dim=-1)
    return relative(ntk_attention(q, k, v, prefix, mask=hidden), weights @ values.reshape(1, 4, 5, 16))


def _model(**options: Any) -> nn.Module:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    sizes = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": _POSITIONS, "vocab_size": _VOCABULARY}
    silent = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}
    model = GPT2LMHeadModel(GPT2Config(**sizes, **silent, initializer_range=0.3)).eval()
    model.config.pad_token_id = 0
    attach(model, NTKConfig(features="elu", init="gaussian", **options))
    return model


def _ids(rows: int = 2, length: int = 10) -> Tensor:
    return torch.randint(1, _VOCABULARY, (rows, length), generator=torch.Generator().manual_seed(2))


def _short_model(dtype: torch.dtype) -> float:
    """Return the error of the whole model's logits in a short type."""
    model = _model()
    exact = model(_ids()).logits
    return relative(copy.deepcopy(model).to(dtype)(_ids()).logits, exact)


def _left_padding() -> float:
    """Return the error of a short row padded on the left beside a long one."""
    model = _model()
    ids = _ids()
    alone = model(ids[:1, 4:]).logits
    padded = ids.clone()
    padded[0, :4] = 0
    seen = torch.ones_like(ids)
    seen[0, :4] = 0
    positions = (seen.cumsum(1) - 1).clamp_min(0)
    return relative(model(padded, attention_mask=seen, position_ids=positions).logits[:1, 4:], alone)


def _gradients(model: Any) -> Tensor:
    model.zero_grad()
    model.train()
    model(_ids(), labels=_ids()).loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])


def _checkpointing() -> float:
    model: Any = _model()
    plain = _gradients(model)
    model.gradient_checkpointing_enable()
    return relative(_gradients(model), plain)


def _compiled() -> float:
    model = _model()
    with torch.no_grad():
        return relative(torch.compile(model)(_ids()).logits, model(_ids()).logits)


def _past_positions() -> float:
    """Return 0 if generating past the table of positions ends in an error that says so, else infinity."""
    try:
        generate(_model(), None, _ids(1)[0], _POSITIONS)
    except AttangentError as error:
        return 0.0 if f"{_POSITIONS} positions" in str(error) else float("inf")
    return float("inf")


CASES: tuple[tuple[str, str, float, Callable[[], float]], ...] = (
    ("attention in float32", "float64", 1e-5, lambda: _compare(torch.float32)),
    ("attention in bfloat16", "float64", 2e-2, lambda: _compare(torch.bfloat16)),
    ("attention in float16", "float64", 2e-3, lambda: _compare(torch.float16)),
    ("logits up to 1e4, float32", "float64", 1e-3, lambda: _compare(torch.float32, scale=1e3)),
    ("logits up to 1e4, bfloat16", "float64", 2e-2, lambda: _compare(torch.bfloat16, scale=1e3)),
    (
        "masses 0, 1e-30 and 1e30",
        "float64",
        2e-5,  # log(1e30) = 69 is rounded to 4e-6 in float32, in the numerator and in the denominator
        lambda: _compare(torch.float32, masses=torch.tensor([0, 1e-30, 1, 1e30, 2e30])),
    ),
    ("rows that see no token", "softmax over the prefix", 1e-5, lambda: _masked(True)),
    ("rows that see nothing at all", "zero", 0.0, lambda: _masked(False)),
    ("model in bfloat16", "model in float32", 1e-1, lambda: _short_model(torch.bfloat16)),
    ("model in float16", "model in float32", 1e-2, lambda: _short_model(torch.float16)),
    ("left padding", "the row alone", 1e-5, _left_padding),
    ("gradient checkpointing", "gradients without it", 1e-5, _checkpointing),
    ("torch.compile", "the model uncompiled", 1e-5, _compiled),
    ("generating past the model's positions", "an error", 0.0, _past_positions),
)


def run() -> list[Measured]:
    """Measure all cases."""
    torch.set_num_threads(1)
    return [Measured(case, reference, measure(), bound) for case, reference, bound, measure in CASES]


def table(rows: list[Measured]) -> str:
    """Return the rows as Markdown."""
    lines = ["| case | compared with | largest error | bound |", "|---|---|---|---|"]
    lines += [f"| {row.case} | {row.reference} | {row.error:.1e} | {row.bound:.0e} |" for row in rows]
    return "\n".join(lines)
