"""Runs in an environment of its own with kvpress: presses a prompt and writes what is left of its cache.

Usage: compress_kvpress.py MODEL ORDER OUT. ORDER is JSON with ids, prefix and jobs, pairs of a press and a
size; OUT is a folder, which gets a safetensors file for each job: for every layer the keys and values that
its heads kept, one head after another, and how many each kept.
"""

import json
import sys
import time
from pathlib import Path

import torch
from kvpress import (
    AdaKVPress,
    ExpectedAttentionPress,
    KVComposePress,
    KVgradPress,
    KVzipPress,
    SnapKVPress,
    TOVAPress,
)
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, DynamicCache


class PlacedKVzip(KVzipPress):
    """KVzip on a prompt whose template begins with `given` tokens, in the place of a guess."""

    given = 0

    def prepare(self, *arguments, **options):
        self.prefix_length = self.given
        return super().prepare(*arguments, **options)


class PlacedKVgrad(KVgradPress):
    """KVgrad on the same kind of prompt."""

    given = 0

    def _perform_kvzip_compression(self, *arguments, **options):
        self.prefix_length = self.given
        return super()._perform_kvzip_compression(*arguments, **options)


def placed(kind, ratio, prefix):
    press = kind(compression_ratio=ratio)
    press.given = prefix
    return press


def composed(ratio):
    """Return KVCompose in its unstructured variant: heads of a layer keep different numbers of tokens.

    It scores tokens by the attention that they get when the prompt is read a second time, its default task.
    """
    # A head without tokens would have no state. Without the 1e-9, rounding could drop one token too many.
    return KVComposePress(structured=False, compression_ratio=ratio - 1e-9, keep_token_lower_bound=1)


PRESSES = {
    "KVzip": lambda ratio, prefix: placed(PlacedKVzip, ratio, prefix),
    "KVgrad": lambda ratio, prefix: placed(PlacedKVgrad, ratio, prefix),
    "KVCompose": lambda ratio, prefix: composed(ratio),
    "SnapKV": lambda ratio, prefix: SnapKVPress(compression_ratio=ratio),
    "ExpectedAttention": lambda ratio, prefix: ExpectedAttentionPress(compression_ratio=ratio),
    "AdaKV": lambda ratio, prefix: AdaKVPress(ExpectedAttentionPress(compression_ratio=ratio)),
    "TOVA": lambda ratio, prefix: TOVAPress(compression_ratio=ratio),
}


def pressed(model, ids, prefix, press, size):
    """Keys, values and numbers of kept tokens of every layer."""
    ids = torch.tensor([ids])
    for layer in model.model.layers:
        layer.self_attn.masked_key_indices = None
    cache, press = DynamicCache(), PRESSES[press](1 - size / ids.shape[1], prefix)
    with torch.no_grad(), press(model):
        model.model(input_ids=ids, past_key_values=cache)
    found = {}
    for place, layer in enumerate(model.model.layers):
        # KVCompose leaves the second reading in the cache, after the prompt.
        keys, values = (
            part[0, :, : ids.shape[1]] for part in (cache.layers[place].keys, cache.layers[place].values)
        )
        kept = torch.ones(keys.shape[:2], dtype=torch.bool)
        masked = layer.self_attn.masked_key_indices
        if masked is not None:
            kept[masked[1], masked[2]] = False
        found |= {f"{place}.keys": keys[kept], f"{place}.values": values[kept]}
        found[f"{place}.counts"] = kept.sum(dim=1)
    return found


def main(folder, order, out):
    options = {"dtype": torch.float32, "attn_implementation": "sdpa"}
    model = AutoModelForCausalLM.from_pretrained(folder, **options).eval()
    order = json.loads(Path(order).read_text())
    torch.set_num_threads(order["threads"])
    for press, size in order["jobs"]:
        started = time.process_time()
        found = pressed(model, order["ids"], order["prefix"], press, size)
        about = {"seconds": str(time.process_time() - started)}
        file = Path(out) / f"{press}-{size}.safetensors"
        save_file({name: tensor.contiguous() for name, tensor in found.items()}, file, metadata=about)


if __name__ == "__main__":
    main(*sys.argv[1:])
