"""What a state has to reproduce: the attention that queries of calibration text pay to a prompt."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from attangent.adapters.call import AttentionCall
from attangent.attention import PrefixState, RaggedState
from attangent.attention.features import Anchors
from attangent.attention.fit import non_negative_minimum
from attangent.compression.capture import attended

_VALUE_RIDGE = 1e-2
_ROWS = 1 << 25
_AT_ONCE = 1 << 19
"""The most logits that exist at once: few enough to stay near the processor."""

PromptState = PrefixState | RaggedState
"""What stands for a prompt in one layer."""
Solution = tuple[Tensor, Tensor, Tensor]
"""Keys (r, d), masses (r) and values (r, dv) of virtual tokens."""
Pair = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Piece:
    """Some tokens of a prompt: their ids (m), the position of the first, and states of all before them."""

    ids: Tensor
    start: int = 0
    before: Mapping[str, PromptState] = field(default_factory=dict)


@dataclass(frozen=True)
class HeadProblem:
    """What the state of one KV head has to reproduce; rows are queries of calibration text.

    share (n): the attention each query pays to the prompt, among all it sees;
    rest (n): what it pays to the text; beside (n, dv): the output of the text alone;
    output (n, dv) = weights values + rest beside; keys and values (m, d) of the prompt;
    queries (n, d): times the scale, so that their products with keys are logits (before a softcap);
    total (n): the logsumexp of all logits that a query sees;
    masses (m): those of tokens that are virtual already; None for one each.
    """

    share: Tensor
    rest: Tensor
    beside: Tensor
    output: Tensor
    keys: Tensor
    values: Tensor
    queries: Tensor
    total: Tensor
    softcap: float | None = None
    masses: Tensor | None = None

    @cached_property
    def weights(self) -> Tensor:
        """(n, m): the attention that each query pays to each token of the prompt; large, made when needed."""
        return self.weights_of(slice(None))

    def weights_of(self, chosen: Tensor | slice) -> Tensor:
        """(n, r): the attention that each query pays to some tokens of the prompt."""
        paid = self.attention_to(self.keys[chosen])
        return paid if self.masses is None else paid.mul_(self.masses[chosen])

    def thinned(self, rows: int) -> "HeadProblem":
        """The problem on every s-th query, so that about `rows` are left."""
        return self.some(slice(None, None, max(1, len(self.rest) // rows)))

    def some(self, rows: Tensor | slice) -> "HeadProblem":
        """The problem on some of the queries."""
        names = ("share", "rest", "beside", "output", "queries", "total")
        return replace(self, **{name: getattr(self, name)[rows] for name in names})

    def attention_to(self, keys: Tensor) -> Tensor:
        """(n, r): what each query would pay to these keys (r, d), in parts of all that it sees now."""
        return self.logits_on(keys).sub_(self.total.unsqueeze(1)).exp_()

    def logits_on(self, keys: Tensor) -> Tensor:
        """(n, r): the logits of the queries on these keys (r, d)."""
        raw = self.queries @ keys.mT
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)


@dataclass(frozen=True)
class LayerProblem:
    """One layer: its call on the calibration text, and the prompt's keys and values (m, d) for each KV head.

    valid (B, L): which of the call's queries count; output and lse: attention over the text alone;
    kept: for each KV head the places of the tokens to keep, where they were chosen beforehand;
    masses: those of the tokens where they are virtual already.
    """

    call: AttentionCall
    valid: Tensor
    keys: Tensor | Sequence[Tensor]
    values: Tensor | Sequence[Tensor]
    output: Tensor
    lse: Tensor
    kept: Sequence[Tensor] | None = None
    masses: Sequence[Tensor] | None = None

    @classmethod
    def of(
        cls,
        call: AttentionCall,
        valid: Tensor,
        keys: Tensor,
        values: Tensor,
        kept: Sequence[Tensor] | None = None,
        beside: tuple[Tensor, Tensor] | None = None,
    ) -> "LayerProblem":
        """The problem of a call; `beside` is the attention over all but the prompt, the text's by default."""
        return cls(call, valid, keys, values, *(beside or call.tokens()), kept)

    @classmethod
    def of_state(
        cls, call: AttentionCall, valid: Tensor, state: PromptState, kept: Sequence[Tensor] | None = None
    ) -> "LayerProblem":
        """The problem of a call behind virtual tokens, which are to become fewer."""
        tokens = RaggedState.from_state(state) if isinstance(state, PrefixState) else state
        keys, values, masses = (
            [part.detach() for part in parts] for parts in zip(*tokens.by_head(), strict=True)
        )
        return cls(call, valid, keys, values, *call.tokens(), kept, masses)

    def rows(self, x: Tensor) -> Tensor:
        """(B, H, L, c) as (Hkv, n, c): the valid positions of all query heads that share a KV head."""
        batch, heads, length, columns = x.shape
        kv_heads = len(self.keys)
        grouped = x.reshape(batch, kv_heads, heads // kv_heads, length, columns).permute(1, 2, 0, 3, 4)
        return grouped[:, :, self.valid].reshape(kv_heads, -1, columns)

    def heads(self, at_most: int | None = None) -> Iterator[HeadProblem]:
        """The problem of each KV head in turn; only one exists at a time.

        at_most: every s-th query is taken, so that about so many are left.
        """
        rows = [self.rows(x) for x in (self.call.q, self.output, self.lse.unsqueeze(-1))]
        masses = self.masses or [None] * len(self.keys)
        parts = zip(*rows, self.keys, self.values, masses, strict=True)
        for q, beside, token_lse, own_keys, own_values, mass in parts:
            k, v, kept = own_keys.float(), own_values.float(), thinned_rows(len(q), len(own_keys), at_most)
            queries, token_total = q[kept].float(), token_lse[kept, 0].float()
            given, lse = self._given(queries, k, v, mass)
            total = torch.logaddexp(lse, token_total)
            share, rest = (lse - total).exp(), (token_total - total).exp()
            near = beside[kept].float()
            output = share.unsqueeze(1) * given + rest.unsqueeze(1) * near
            scaled = queries * self.call.scale
            yield HeadProblem(share, rest, near, output, k, v, scaled, total, self.call.softcap, mass)

    def _given(self, queries: Tensor, keys: Tensor, values: Tensor, mass: Tensor | None) -> Pair:
        """What the prompt alone gives each query (n, dv), and the logsumexp (n), some queries at a time."""
        log_mass = None if mass is None else mass.log()
        parts = []
        for some in queries.split(max(1, _AT_ONCE // len(keys))):
            logits = self.call.scores(some, keys)
            parts.append(attended(logits if log_mass is None else logits.add_(log_mass), values))
        given, lse = (torch.cat(kind) for kind in zip(*parts, strict=True))
        return given, lse.squeeze(1)

    def state(self, solved: Sequence[Solution]) -> PromptState:
        """The virtual tokens of each KV head as a state, ragged where heads differ in number."""
        keys, masses, values = (list(parts) for parts in zip(*solved, strict=True))
        if len({len(own) for own in masses}) > 1:
            return RaggedState.of(keys, values, masses, self.call.softcap)
        k, Z = torch.stack(masses), torch.stack(values) * torch.stack(masses).unsqueeze(-1)
        return PrefixState(Anchors(torch.stack(keys), self.call.softcap), Z, k)


def thinned_rows(rows: int, tokens: int, at_most: int | None = None) -> slice:
    """Every s-th row, so that rows x tokens of the prompt stay within memory and `at_most` or so are left."""
    wanted = 1 if at_most is None else rows // at_most
    return slice(None, None, max(1, wanted, -(-rows * tokens // _ROWS)))


def fitted_masses(design: Tensor, target: Tensor, ridge: float) -> Tensor:
    """argmin |A x - b|^2/n + ridge |x|^2 over x >= 0, columns of A scaled to unit mean square.

    Products over the rows are in float32, whose error is far below the ridge; the rest is in float64.
    """
    norms = design.square().mean(dim=0).sqrt().clamp(min=torch.finfo(design.dtype).tiny)
    A = design / norms
    gram, right = ((A.mT @ b / len(A)).double().cpu() for b in (A, target))
    gram.diagonal().add_(ridge)
    return (non_negative_minimum(gram, right).to(norms) / norms).float()


def fitted_values(problem: HeadProblem, weights: Tensor, masses: Tensor, start: Tensor) -> Tensor:
    """The values about `start` with which tokens of these masses give the output best.

    Products over the rows are in float32, whose error is far below the ridge; the rest is in float64.
    """
    part = weights * masses
    total = (part.sum(dim=1) + problem.rest).unsqueeze(1)
    target = problem.output - problem.rest.unsqueeze(1) / total * problem.beside
    design = part / total
    gram, right = ((design.mT @ b).double() for b in (design, target - design @ start))
    gram.diagonal().add_(_VALUE_RIDGE * gram.diagonal().mean())
    return start + torch.linalg.solve(gram, right).float()
