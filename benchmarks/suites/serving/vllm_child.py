"""Runs in vLLM's own interpreter: answer requests in a closed loop and time them.

Reads a JSON job from the file named first and writes its result to the file named second. Every client sends
its next request when the last one has ended. Before each way is timed, every prompt is read once, so that
vLLM's prefix cache is warm.
"""

import json
import os
import sys
import time
from collections.abc import Sequence
from typing import Any

Job = dict[str, Any]


def build(job: Job) -> Any:
    """The engine, with the connector."""
    from vllm import LLM
    from vllm.config import KVTransferConfig

    settings = KVTransferConfig(
        kv_connector="AttangentConnector",
        kv_connector_module_path="attangent.serving.vllm_connector",
        kv_role="kv_consumer",
        kv_connector_extra_config={"prefixes": job["prefixes"]},
    )
    return LLM(
        model=job["model"],
        dtype="float32",
        enforce_eager=True,
        max_model_len=8192,
        block_size=32,
        max_num_seqs=job["clients"],
        kv_transfer_config=settings,
    )


def used_bytes(engine: Any) -> float:
    """Bytes of the KV blocks that requests hold at the moment."""
    scheduler = engine.engine_core.engine_core.scheduler
    space = int(os.environ["VLLM_CPU_KVCACHE_SPACE"]) * 2**30
    return scheduler.kv_cache_manager.usage * space


def answer_all(engine: Any, requests: Sequence[Sequence[int]], clients: int, tokens: int) -> dict[str, Any]:
    """Answer all requests, at most `clients` of them at once."""
    from vllm import SamplingParams

    options = SamplingParams(temperature=0, max_tokens=tokens)
    sent: dict[str, float] = {}
    first: dict[str, float] = {}
    ended: dict[str, list[int]] = {}
    peak = 0.0
    start = time.perf_counter()
    processor = time.process_time()
    while len(ended) < len(requests):
        while len(sent) < len(requests) and len(sent) - len(ended) < clients:
            name = str(len(sent))
            sent[name] = time.perf_counter()
            engine.add_request(name, {"prompt_token_ids": list(requests[int(name)])}, options)
        outputs = engine.step()
        peak = max(peak, used_bytes(engine))
        for output in outputs:
            first.setdefault(output.request_id.split("-")[0], time.perf_counter())
            if output.finished:
                ended[output.request_id.split("-")[0]] = list(output.outputs[0].token_ids)
    return {
        "seconds": time.perf_counter() - start,
        "processor_seconds": time.process_time() - processor,
        "first_token": [first[str(index)] - sent[str(index)] for index in range(len(requests))],
        "peak_bytes": peak,
        "answers": [ended[str(index)] for index in range(len(requests))],
    }


def main() -> None:
    with open(sys.argv[1]) as file:
        job = json.load(file)
    llm = build(job)
    results = {}
    for way, requests in job["requests"].items():
        llm.reset_prefix_cache()
        # The first request of every tenant warms the cache and is not timed.
        answer_all(llm.llm_engine, requests[: job["tenants"]], 1, 1)
        results[way] = answer_all(llm.llm_engine, requests, job["clients"], job["tokens"])
    with open(sys.argv[2], "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
