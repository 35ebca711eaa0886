"""Attention with a prefix written out, to be run in float64 under transformers' AttentionInterface."""

import torch

from attangent.adapters.slot import slot_of


def naive_attention(module, query, key, value, attention_mask, **options):
    """(e^A v + sum phi(q) Z) / (e^A 1 + sum phi(q) k) over all active states, plain exponentials."""
    groups = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    scale = options.get("scaling") or query.shape[-1] ** -0.5
    logits = scale * query @ key.mT
    if options.get("softcap") is not None:
        logits = options["softcap"] * torch.tanh(logits / options["softcap"])
    if options.get("position_bias") is not None:
        logits = logits + options["position_bias"]
    if attention_mask is not None:
        logits = logits + attention_mask[..., : key.shape[-2]]
    weights = logits.exp()
    top, whole = weights @ value, weights.sum(dim=-1, keepdim=True)
    slot = slot_of(module)
    x = query * scale * query.shape[-1] ** 0.5
    for name in slot.active if slot is not None and slot.enabled else ():
        Z, k = slot.states[name].weights()
        k = k.abs() if slot.states[name].features.positive else k
        groups = x.shape[1] // len(Z)
        for h in range(x.shape[1]):
            phi = slot.states[name].features(x[:, h, None].expand(-1, len(Z), -1, -1))[:, h // groups]
            top[:, h] += phi @ Z[h // groups]
            whole[:, h, :, 0] += phi @ k[h // groups]
    return (top / whole).transpose(1, 2), None


def use_naive_attention(model):
    """Lead the model's attention through `naive_attention`, with the additive masks of eager attention."""
    from transformers import AttentionInterface, AttentionMaskInterface
    from transformers.masking_utils import eager_mask

    AttentionInterface.register("naive", naive_attention)
    AttentionMaskInterface.register("naive", eager_mask)
    for module in model.modules():
        if hasattr(getattr(module, "config", None), "_attn_implementation"):
            module.config._attn_implementation_internal = "naive"
    return model
