"""Keys and values of a prompt, stored once and shared by every sequence of a batch, and attention over them.

A handler answers a layer's attention call with the prompt, or a state that stands for it, before the tokens.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from attangent.adapters.call import AttentionCall
from attangent.attention import Prefix, PrefixState, RaggedState
from attangent.attention.backends.torch.portable import merged
from attangent.attention.backends.torch.tokens import flash, is_fused
from attangent.attention.features import Anchors
from attangent.attention.masks import Mask, resolve_mask

# Maximum number of logits in memory at a time.
_LOGITS = 1 << 20
_NO_MASK = Mask()

# Answers a call with the attention's output (B, H, L, dv).
Handler = Callable[[AttentionCall], Tensor]
# The virtual tokens that replace a prompt in one layer.
PromptState = PrefixState | RaggedState
# Output and logsumexp of attention over some keys.
Attended = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class PromptCache:
    """Keys and values of a prompt in every layer.

    Attributes:
        layers: Keys and values (Hkv, m, d) by layer name.
        logits: Logits of the first token after the prompt.
        start: Position of the prompt's first token.
        before: States, by layer, of earlier pieces of the prompt.
    """

    layers: Mapping[str, tuple[Tensor, Tensor]]
    logits: Tensor
    start: int = 0
    before: Mapping[str, Prefix] = field(default_factory=dict)

    @property
    def length(self) -> int:
        """Return the position after the prompt."""
        return self.start + next(iter(self.layers.values()))[0].shape[1]

    @property
    def number_of_bytes(self) -> int:
        """Return the memory that the keys and values take."""
        return sum(t.numel() * t.element_size() for pair in self.layers.values() for t in pair)

    def without_prompt(self, call: AttentionCall) -> Attended:
        """Attend to the tokens and to the earlier pieces, but not to this prompt."""
        tokens = _tokens_part(call)
        state = self.before.get(call.layer)
        return tokens if state is None else merged(tokens, state_part(call, state))

    def whole_states(self, softcap: float | None) -> dict[str, PromptState]:
        """Return every token of the prompt, unchanged, as states."""
        return {
            name: PrefixState(Anchors(keys, softcap), values, torch.ones_like(keys[..., 0]))
            for name, (keys, values) in self.layers.items()
        }


@dataclass(frozen=True)
class Piece:
    """Some tokens of a prompt.

    Attributes:
        ids: The tokens (m).
        start: Position of the first.
        before: States, by layer, of everything before them.
    """

    ids: Tensor
    start: int = 0
    before: Mapping[str, PromptState] = field(default_factory=dict)


class PromptForm(NamedTuple):
    """One form of the prompt (full, compressed or none): the position after it and its handler."""

    offset: int
    handler: Handler | None

    @classmethod
    def full(cls, cache: PromptCache) -> "PromptForm":
        """Read text after the whole prompt."""
        return cls(cache.length, whole_prompt(cache))

    @classmethod
    def compressed(cls, cache: PromptCache, states: Mapping[str, Prefix]) -> "PromptForm":
        """Read text after the states that replace the prompt."""
        return cls(cache.length, with_states(states))

    @classmethod
    def none(cls) -> "PromptForm":
        """Read text without any prompt."""
        return cls(0, None)


def whole_prompt(cache: PromptCache) -> Handler:
    """Return a handler for exact attention to the whole prompt and the tokens."""

    def handle(call: AttentionCall) -> Tensor:
        prompt = prompt_part(call, *cache.layers[call.layer])
        return merged(cache.without_prompt(call), prompt)[0].to(call.q.dtype)

    return handle


def with_states(states: Mapping[str, Prefix]) -> Handler:
    """Return a handler that puts each layer's state, if it has one, before the tokens."""

    def handle(call: AttentionCall) -> Tensor:
        state = states.get(call.layer)
        return call.tokens()[0].to(call.q.dtype) if state is None else call.with_prefix(state)

    return handle


def state_part(call: AttentionCall, state: Prefix) -> Attended:
    """Attend to the virtual tokens of a state alone."""
    features: Any = state.features
    keys = features.keys
    Z, mass = state.weights()
    q = by_kv_head(call.q, len(keys))
    masses = mass.abs()
    logits = call.scores(q, keys) + masses.log().unsqueeze(1)
    # A head with fewer tokens than others is padded with masses of 0, whose value Z / 0 is undefined.
    out, lse = attended(logits, Z / torch.where(masses == 0, 1, masses).unsqueeze(-1))
    return by_sequence(out, call.q), by_sequence(lse, call.q).squeeze(-1)


def prompt_part(
    call: AttentionCall, keys: Float[Tensor, "kv_heads m d"], values: Float[Tensor, "kv_heads m dv"]
) -> Attended:
    """Attend to a prompt's keys alone."""
    out, lse = attention_by_head(call, by_kv_head(call.q, len(keys)), keys, values)
    return by_sequence(out, call.q), by_sequence(lse.unsqueeze(-1), call.q).squeeze(-1)


def attention_by_head(
    call: AttentionCall,
    q: Float[Tensor, "kv_heads n d"],
    keys: Float[Tensor, "kv_heads m d"],
    values: Float[Tensor, "kv_heads m dv"],
) -> Attended:
    """Return the output (Hkv, n, dv) and logsumexp (Hkv, n) of the queries of each KV head on its keys."""
    fused = _fused(call, q[None], keys[None], values[None], _NO_MASK)
    if fused is not None:
        return fused[0][0], fused[1][0]
    # A few queries at a time bound the memory.
    at_once = max(1, _LOGITS // (len(keys) * keys.shape[1]))
    parts = [attended(call.scores(part, keys), values) for part in q.split(at_once, dim=1)]
    out, lse = (torch.cat(kind, dim=1) for kind in zip(*parts, strict=True))
    return out, lse.squeeze(-1)


def _tokens_part(call: AttentionCall) -> Attended:
    """Attend to the tokens of the call alone, in at least float32."""
    fused = None
    if call.q.dtype in (torch.float32, torch.float64):
        fused = _fused(call, call.q, call.k, call.v, resolve_mask(*call.visible(), call.q, call.k))
    return call.tokens() if fused is None else fused


def _fused(call: AttentionCall, q: Tensor, keys: Tensor, values: Tensor, mask: Mask) -> Attended | None:
    """Return torch's fused attention if it computes this call; its logsumexp has no gradient.

    No logit goes to memory, which takes half the time.
    """
    tensors = (q, keys, values)
    tracked = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)
    mixed = len({tensor.dtype for tensor in tensors}) > 1
    if call.softcap is not None or mask.empty is not None or tracked or mixed:
        return None
    if not is_fused(q, keys, values, mask):
        return None
    return flash(q, keys, values, mask, call.scale)


def attended(logits: Float[Tensor, "*heads n m"], values: Float[Tensor, "*heads m dv"]) -> Attended:
    """Return softmax(logits) values (Hkv, n, dv) and the logsumexp (Hkv, n, 1).

    `torch.softmax` and `torch.logsumexp` would compute the exponentials twice.
    """
    # Subtracting the maximum keeps the exponentials finite.
    top = logits.detach().amax(dim=-1, keepdim=True)
    parts = (logits - top).exp_()
    total = parts.sum(dim=-1, keepdim=True)
    return parts @ values / total, top + total.log()


def by_kv_head(q: Float[Tensor, "batch heads length d"], kv_heads: int) -> Float[Tensor, "kv_heads n d"]:
    """Group queries by the KV head they read, so that its keys need not be repeated."""
    batch, heads, rows, dim = q.shape
    return q.reshape(batch, kv_heads, heads // kv_heads * rows, dim).transpose(0, 1).flatten(1, 2)


def by_sequence(
    x: Float[Tensor, "kv_heads n c"], q: Float[Tensor, "batch heads length d"]
) -> Float[Tensor, "batch heads length c"]:
    """Undo `by_kv_head(q)` for a result with one row per query."""
    batch, heads, rows, _ = q.shape
    return x.unflatten(1, (batch, -1)).transpose(0, 1).reshape(batch, heads, rows, -1)


def joined_states(
    before: Mapping[str, PromptState], after: Mapping[str, PromptState]
) -> dict[str, PromptState]:
    """Join the states of both by layer, in the order of `after`; a layer may be in only one of them."""
    joined = {name: _added(before[name], state) if name in before else state for name, state in after.items()}
    return {**joined, **{name: state for name, state in before.items() if name not in after}}


def _added(one: PromptState, other: PromptState) -> PromptState:
    if isinstance(one, PrefixState) and isinstance(other, PrefixState):
        return one.add(other)
    return (one if isinstance(one, RaggedState) else RaggedState.from_state(one)).add(other)
