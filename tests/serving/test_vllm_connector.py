"""The connector's arithmetic, and vLLM itself if ATTANGENT_VLLM_PYTHON names an interpreter that has it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import attangent
from attangent.compression import load_compressed
from attangent.serving.exports.engine_prefix import EnginePrefix, Layer, Marker, write_prefix
from attangent.serving.exports.plain import plain_prefix
from attangent.serving.vllm_connector import heads_of, matching, slots_of
from tests.serving.exports.cases import greedy


def prefix(name, ids):
    return EnginePrefix(name, Marker(ids, []), (), "m", 90)


def test_a_request_is_matched_by_its_first_tokens():
    prefixes = {"a": prefix("a", [1, 2, 3]), "b": prefix("b", [1, 2, 4])}
    assert matching(prefixes, [1, 2, 4, 9]) is prefixes["b"]
    assert matching(prefixes, [1, 2, 3, 4]) is prefixes["a"]
    assert matching(prefixes, [1, 2, 5, 4]) is None
    assert matching(prefixes, [1, 2, 3]) is None  # one token must be left to compute
    assert matching(prefixes, []) is None


def test_slots_follow_the_blocks():
    assert slots_of([7, 2, 5], 4, 6).tolist() == [28, 29, 30, 31, 8, 9]


@pytest.mark.parametrize(
    ("shards", "heads", "expected"),
    [(1, 4, [[0, 1, 2, 3]]), (2, 2, [[0, 1], [2, 3]]), (8, 1, [[i // 2] for i in range(8)])],
)
def test_workers_hold_their_share_of_the_heads(shards, heads, expected):
    layer = Layer(torch.arange(4.0).view(1, 4, 1), torch.arange(4.0).view(1, 4, 1))
    parts = [heads_of(layer, heads, rank, shards).keys.flatten().tolist() for rank in range(shards)]
    assert parts == expected


RUN = """
import json, sys
from vllm import LLM, SamplingParams
from vllm.config import KVTransferConfig

model, folder, requests = sys.argv[1:]
settings = KVTransferConfig(
    kv_connector="AttangentConnector",
    kv_connector_module_path="attangent.serving.vllm_connector",
    kv_role="kv_consumer",
    kv_connector_extra_config={"prefixes": json.loads(folder)},
)
llm = LLM(model=model, dtype="float32", enforce_eager=True, max_model_len=1024, kv_transfer_config=settings,
          skip_tokenizer_init=True)
options = SamplingParams(temperature=0, max_tokens=16, detokenize=False)
rounds = []
for _ in range(2):
    outputs = llm.generate([{"prompt_token_ids": ids} for ids in json.loads(requests)], options)
    rounds.append([list(output.outputs[0].token_ids) for output in outputs])
print("TOKENS", json.dumps(rounds))
"""


def vllm_environment(python):
    library = Path(python).parents[1] / "lib" / "libiomp5.so"
    return {
        **os.environ,
        "PYTHONPATH": str(Path(attangent.__file__).parents[1]),
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "LD_PRELOAD": str(library) if library.is_file() else "",
    }


def stories_case(folder, seed):
    """A prompt for a tiny random model with heads of a size that vLLM takes, and the model."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from attangent.compression.entry import compress
    from tests.compression.cases import ChatLetters

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=1024, bos_token_id=None, eos_token_id=None,
        pad_token_id=None,
    )  # fmt: skip
    model = LlamaForCausalLM(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4)
    text = f"text {seed} that is long enough to be worth compressing, and then a little more. " * 2
    prompt = [{"role": "system", "content": text}]
    compress(model, ChatLetters(), prompt, size=48, method="plain").save(model, folder)
    return model, ChatLetters()


def test_vllm_writes_the_tokens_of_transformers(tmp_path):
    python = os.environ.get("ATTANGENT_VLLM_PYTHON")
    if not python:
        pytest.skip("vLLM is not there: set ATTANGENT_VLLM_PYTHON to an interpreter that has it")
    requests = []
    expected = []
    folders = []
    for seed, name in enumerate(("town", "legal")):
        model, tokenizer = stories_case(tmp_path / name, seed)
        exported = plain_prefix(model, tokenizer, tmp_path / name, name)
        folders.append(str(write_prefix(exported, tmp_path / name / "vllm")))
        reader = load_compressed(model, tokenizer, tmp_path / name)
        for text in ("who is it?", "where?", "when does it open?"):
            ids = reader.question(tokenizer, text).tolist()
            requests.append([*exported.marker.ids, *ids])
            expected.append(greedy(model, ids, 16))
        attangent.detach(model)
    model.save_pretrained(tmp_path / "model")
    arguments = [str(tmp_path / "model"), json.dumps(folders), json.dumps(requests)]
    result = subprocess.run(
        [python, "-c", RUN, *arguments], capture_output=True, text=True, env=vllm_environment(python)
    )
    lines = [line for line in result.stdout.splitlines() if line.startswith("TOKENS")]
    assert lines, result.stderr[-2000:] + sys.version
    # The second round reads the blocks that vLLM's prefix cache kept from the first.
    assert json.loads(lines[0].removeprefix("TOKENS")) == [expected, expected]
