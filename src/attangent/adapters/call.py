"""One attention call of a layer, read from the arguments that transformers passes."""

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from attangent.attention import Prefix, ntk_attention
from attangent.attention.backends.torch.portable import token_part
from attangent.attention.masks import resolve_mask


class AttentionCall(NamedTuple):
    """Queries, keys and values of one call, and what each query may see.

    Attributes:
        layer: Name of the layer; empty unless the caller passes it.
        q: Queries (B, H, L, d).
        k: Keys (B, Hkv, Lk, d).
        v: Values (B, Hkv, Lk, dv).
        mask: The mask of transformers; `visible` says what it means.
        causal: Whether the layer is causal.
        scale: Factor of the logits.
        softcap: Largest absolute logit, approached by tanh.
        dropout: Probability of dropping an attention weight.
        bias: Added to the logits (the positions of T5).
    """

    layer: str
    q: Tensor
    k: Tensor
    v: Tensor
    mask: Tensor | None
    causal: bool
    scale: float
    softcap: float | None = None
    dropout: float = 0.0
    bias: Tensor | None = None

    @classmethod
    def of(
        cls,
        module: nn.Module,
        q: Tensor,
        k: Tensor,
        v: Tensor,
        mask: Tensor | None,
        options: dict[str, Any],
        layer: str = "",
    ) -> "AttentionCall":
        """Return the call for the arguments that transformers passes to an attention function."""
        get = options.get
        causal = get("is_causal")
        if causal is None:
            causal = getattr(module, "is_causal", True)
        scale = get("scaling") or q.shape[-1] ** -0.5
        dropout = get("dropout") or 0.0
        return cls(layer, q, k, v, mask, causal, scale, get("softcap"), dropout, get("position_bias"))

    def visible(self) -> tuple[Tensor | None, bool]:
        """Return (mask, causal) as transformers' sdpa attention reads them, with the bias in the mask."""
        mask = self.mask
        bias = self.bias
        rows = self.q.shape[2]
        columns = self.k.shape[2]
        causal = bool(self.causal) and rows > 1 and mask is None
        if causal and (rows != columns or bias is not None):
            mask = torch.ones(rows, columns, dtype=torch.bool, device=self.q.device).tril()
            causal = False
        if bias is None:
            return mask, causal
        if mask is None:
            return bias, causal
        if mask.dtype == torch.bool:
            return torch.where(mask, bias, torch.finfo(bias.dtype).min), causal
        return bias + mask, causal

    def within(self, seen: Tensor) -> "AttentionCall":
        """Return the call with its view restricted to `seen` (B, 1, L, Lk)."""
        mask, causal = self.visible()
        seen = seen.to(self.q.device)
        if causal:
            seen = seen.tril()
        if mask is None:
            mask = seen
        elif mask.dtype == torch.bool:
            mask = mask & seen
        else:
            mask = torch.where(seen, mask, torch.finfo(mask.dtype).min)
        return self._replace(mask=mask, causal=False, bias=None)

    def with_prefix(self, prefix: Prefix) -> Float[Tensor, "batch heads rows value_dim"]:
        """Return attention with the prefix before the tokens, (B, H, L, dv)."""
        mask, causal = self.visible()
        out = ntk_attention(
            self.q,
            self.k,
            self.v,
            prefix,
            mask=mask,
            causal=causal,
            scale=self.scale,
            dropout=self.dropout,
            softcap=self.softcap,
        )
        return self.without_blind(out)

    def without_blind(self, out: Tensor) -> Tensor:
        """Return the output without gradients through queries that see no token.

        These are padding before a text. Such a query sees only the prefix, whose gradient is unbounded as the
        mass of the prefix goes to 0, and tells nothing about the text.
        """
        mask = self.mask
        if mask is None or not out.requires_grad or mask.shape[-2] == 1:
            return out
        seen = mask if mask.dtype == torch.bool else mask > torch.finfo(mask.dtype).min / 2
        seen = seen.any(dim=-1, keepdim=True)
        if not torch.compiler.is_compiling() and bool(seen.all()):
            return out
        return torch.where(seen, out, out.detach())

    def tokens(self) -> tuple[Float[Tensor, "batch heads rows value_dim"], Float[Tensor, "batch heads rows"]]:
        """Return attention over the tokens only, no dropout: output (B, H, L, dv), logsumexp (B, H, L)."""
        mask = resolve_mask(*self.visible(), self.q, self.k)
        return token_part(self.q, self.k, self.v, mask, self.scale, softcap=self.softcap)

    def logsumexp(self) -> Float[Tensor, "batch heads rows"]:
        """Return the logarithm of each query's mass over the tokens, (B, H, L)."""
        return self._replace(v=self.v[..., :1]).tokens()[1]

    def scores(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Return the logits of these queries on these keys, as the layer computes them."""
        raw = (queries * self.scale) @ keys.mT
        return raw if self.softcap is None else self.softcap * torch.tanh(raw / self.softcap)

    def real_tokens(self) -> tuple[Bool[Tensor, "batch rows"], Bool[Tensor, "batch keys"]]:
        """Return which queries (B, L) and keys (B, Lk) are not padding; padding is what no query may see.

        In self-attention a query is real if its key is; in cross-attention all queries count as real.
        """
        seen, _ = self._replace(bias=None).visible()
        batch, _, rows, _ = self.q.shape
        columns = self.k.shape[2]
        device = self.q.device
        keys = torch.ones(batch, columns, dtype=torch.bool, device=device)
        if seen is not None:
            seen = seen if seen.dtype == torch.bool else seen > torch.finfo(seen.dtype).min / 2
            seen = seen[(None,) * (4 - seen.ndim)]
            keys = seen.any(dim=-2).any(dim=1).expand(batch, columns)
        queries = keys if rows == columns else torch.ones(batch, rows, dtype=torch.bool, device=device)
        return queries, keys
