"""A KV connector for vLLM that puts compressed prompts in place of the tokens that stand for them.

Name it in vLLM's `kv_transfer_config`::

    {"kv_connector": "AttangentConnector", "kv_connector_module_path": "attangent.serving.vllm_connector",
     "kv_role": "kv_consumer", "kv_connector_extra_config": {"prefixes": ["handbook/vllm", "legal/vllm"]}}

A request that begins with a prefix's marker tokens attends to that prefix. The tokens contain a digest of the
prefix, so vLLM's prefix cache shares its blocks between requests and never confuses two prefixes.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from attangent._core.errors import AttangentError
from attangent.serving.exports.engine_prefix import EnginePrefix, Layer, read_prefixes

try:
    from vllm.distributed.kv_transfer.kv_connector.v1.base import (  # pyright: ignore[reportMissingImports]
        KVConnectorBase_V1,
        KVConnectorMetadata,
    )
except ImportError:  # only vLLM uses the connector; tests and tools may import this module without it
    KVConnectorBase_V1 = object
    KVConnectorMetadata = object

_LOG = logging.getLogger("vllm.attangent")


@dataclass(frozen=True)
class PrefixLoad:
    """A prefix to write into the blocks of a request.

    Attributes:
        name: Name of the prefix.
        blocks: The request's blocks, in order.
    """

    name: str
    blocks: list[int]


@dataclass
class PrefixLoads(KVConnectorMetadata):  # pyright: ignore[reportGeneralTypeIssues]
    """The loads of one step, sent from the scheduler to the workers.

    Attributes:
        loads: The loads.
    """

    loads: list[PrefixLoad] = field(default_factory=list)


class AttangentConnector(KVConnectorBase_V1):  # pyright: ignore[reportGeneralTypeIssues]
    """Loads compressed prompts into vLLM's KV cache; it never stores anything.

    Args:
        vllm_config: vLLM's settings; `kv_connector_extra_config` lists the folders under `prefixes`.
        role: Scheduler or worker.
        kv_cache_config: Layout of vLLM's KV cache.
    """

    def __init__(self, vllm_config: Any, role: Any, kv_cache_config: Any = None) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        self._block_size: int = vllm_config.cache_config.block_size
        self._waiting: list[PrefixLoad] = []
        self._prefixes = read_prefixes(self._kv_transfer_config.get_from_extra_config("prefixes", []))
        for prefix in self._prefixes.values():
            _LOG.info("prefix %s: %d tokens instead of %d", prefix.name, prefix.size, prefix.prompt_tokens)
        parallel = vllm_config.parallel_config
        self._shards: int = parallel.tensor_parallel_size
        if parallel.pipeline_parallel_size > 1:
            raise AttangentError("compressed prompts need all layers in one worker; use no pipeline stages")

    # Scheduler

    def get_num_new_matched_tokens(self, request: Any, num_computed_tokens: int) -> tuple[int, bool]:
        """Return how many tokens after the computed ones a prefix provides."""
        prefix = matching(self._prefixes, request.prompt_token_ids or ())
        return (0 if prefix is None else max(0, prefix.size - num_computed_tokens)), False

    def on_new_request(self, request: Any) -> None:
        """Answer a request with a prefix without the log probabilities of its prompt."""
        # To get them, vLLM would compute the marker's tokens and cache the result as the prefix.
        wanted = request.skip_reading_prefix_cache
        if wanted and matching(self._prefixes, request.prompt_token_ids or ()) is not None:
            _LOG.warning("%s: a compressed prompt has no prompt_logprobs", request.request_id)
            request.sampling_params.prompt_logprobs = None
            request.skip_reading_prefix_cache = False

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        """Remember the blocks into which a worker must write."""
        if num_external_tokens > 0:
            prefix = matching(self._prefixes, request.prompt_token_ids or ())
            assert prefix is not None
            self._waiting.append(PrefixLoad(prefix.name, list(blocks.get_block_ids()[0])))

    def build_connector_meta(self, scheduler_output: Any) -> PrefixLoads:
        """Return the loads of this step."""
        loads = PrefixLoads(self._waiting)
        self._waiting = []
        return loads

    # Worker

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        """Write the prefixes of this step's new requests into the KV cache of every layer."""
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, PrefixLoads)
        layers = [
            layer
            for layer in forward_context.no_compile_layers.values()
            if getattr(layer, "kv_cache", None) is not None
        ]
        for load in metadata.loads:
            prefix = self._prefixes[load.name]
            slots = slots_of(load.blocks, self._block_size, prefix.size)
            for layer in layers:
                self._write(layer, prefix, slots)

    def _write(self, layer: Any, prefix: EnginePrefix, slots: Tensor) -> None:
        from vllm.distributed import (  # pyright: ignore[reportMissingImports]
            get_tensor_model_parallel_rank,
        )
        from vllm.model_executor.models.utils import (  # pyright: ignore[reportMissingImports]
            extract_layer_index,
        )

        stored = prefix.layers[extract_layer_index(layer.layer_name)]
        rank = get_tensor_model_parallel_rank() if self._shards > 1 else 0
        part = heads_of(stored, layer.num_kv_heads, rank, self._shards)
        device = layer.kv_cache.device
        dtype = self._vllm_config.model_config.dtype
        keys = part.keys.to(device, dtype)
        values = part.values.to(device, dtype)
        layer.impl.do_kv_cache_update(layer, keys, values, layer.kv_cache, slots.to(device))

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Return at once: `start_load_kv` has loaded all layers."""

    def save_kv_layer(self, layer_name: str, kv_layer: Tensor, attn_metadata: Any, **kwargs: Any) -> None:
        """Store nothing."""

    def wait_for_save(self) -> None:
        """Return at once: nothing is stored."""


def matching(prefixes: dict[str, EnginePrefix], ids: Sequence[int]) -> EnginePrefix | None:
    """Return the prefix whose marker begins a request that has at least one more token."""
    for prefix in prefixes.values():
        if len(ids) > prefix.size and list(ids[: prefix.size]) == prefix.marker.ids:
            return prefix
    return None


def slots_of(blocks: Sequence[int], block_size: int, size: int) -> Tensor:
    """Return the slots (size) of the first tokens of a request with these blocks."""
    positions = torch.arange(size)
    return torch.tensor(blocks)[positions // block_size] * block_size + positions % block_size


def heads_of(layer: Layer, heads: int, rank: int, shards: int) -> Layer:
    """Return the heads that a worker holds: vLLM splits them, or repeats them if there are too few."""
    first = rank * layer.keys.shape[1] // shards
    return Layer(layer.keys[:, first : first + heads], layer.values[:, first : first + heads])
