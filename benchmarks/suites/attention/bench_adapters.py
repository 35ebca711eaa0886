"""Prefix states on a Hugging Face model against peft's LoRA in training, and the bare model in decoding."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from attangent._core.random import generator
from attangent.adapters import NTKConfig, attach
from benchmarks.harness.benchmark import Benchmark, Contestant, Goal, Size
from benchmarks.harness.child import Unavailable, Work

VOCABULARY = 4096
BATCH = 16
LAYERS = 6
NEW_TOKENS = 64
LENGTHS = [{"L": 32}, {"L": 128}]


def draw_ids(rows: int, length: int) -> Tensor:
    return torch.randint(5, VOCABULARY, (rows, length), generator=generator(0, "bench adapters"))


def encoder(dropout: float) -> Any:
    """A BERT of MiniLM's sizes, 6 layers of 384 with 12 heads of 32, with random weights, two classes."""
    try:
        from transformers import BertConfig, BertForSequenceClassification
    except ImportError as error:
        raise Unavailable(str(error)) from None
    torch.manual_seed(0)
    config = BertConfig(
        hidden_size=384,
        num_hidden_layers=LAYERS,
        num_attention_heads=12,
        intermediate_size=1536,
        vocab_size=VOCABULARY,
        attention_probs_dropout_prob=dropout,
        hidden_dropout_prob=dropout,
    )
    return BertForSequenceClassification(config).train()


def batch_of(length: int) -> dict[str, Tensor]:
    """Sentences of half to full length, padded on the right, with labels."""
    ids = draw_ids(BATCH, length)
    lengths = torch.linspace(length / 2, length, BATCH).long()
    mask = (torch.arange(length) < lengths[:, None]).long()
    return {"input_ids": ids * mask, "attention_mask": mask, "labels": torch.arange(BATCH) % 2}


def with_lora(model: Any, batch: dict[str, Tensor]) -> Any:
    from peft import LoraConfig, TaskType, get_peft_model

    config = LoraConfig(
        task_type=TaskType.SEQ_CLS, r=8, target_modules=["query", "value"], modules_to_save=["classifier"]
    )
    return get_peft_model(model, config).train()


def with_prefix(features: Any) -> Callable[[Any, dict[str, Tensor]], Any]:
    def adapted(model: Any, batch: dict[str, Tensor]) -> Any:
        config = NTKConfig(features=features, modules_to_save=("classifier",))
        return attach(model, config, calibration=batch)

    return adapted


def with_both(model: Any, batch: dict[str, Tensor]) -> Any:
    """The method ntk+lora of `tune`: half of LoRA and half a state."""
    from attangent.tuning.methods import Method, adapt

    return adapt(model, Method.from_dict({"name": "ntk+lora"}), "classification", 0, [batch]).train()


def training_step(adapt: Callable[[Any, dict[str, Tensor]], Any], dropout: float) -> Callable[[Size], Work]:
    """Forward, backward and a step of AdamW on what is trained."""

    def build(size: Size) -> Work:
        batch = batch_of(size["L"])
        model = adapt(encoder(dropout), batch)
        optimiser = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)

        def step() -> Tensor:
            loss = model(**batch).loss
            loss.backward()
            optimiser.step()
            optimiser.zero_grad()
            return loss.detach()

        return step

    return build


def small_llama() -> Any:
    """6 layers of 512 with 8 heads on 4 KV heads."""
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=512,
        num_hidden_layers=LAYERS,
        num_attention_heads=8,
        num_key_value_heads=4,
        intermediate_size=1408,
        vocab_size=VOCABULARY,
    )


def smollm2_sized() -> Any:
    """The sizes of SmolLM2-135M: 30 layers of 576 with 9 heads on 3 KV heads, 49,152 words."""
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=576,
        num_hidden_layers=5 * LAYERS,
        num_attention_heads=9,
        num_key_value_heads=3,
        intermediate_size=1536,
        vocab_size=12 * VOCABULARY,
        tie_word_embeddings=True,
    )


def decoder(config: Any) -> Any:
    """A Llama with random weights."""
    from transformers import LlamaForCausalLM

    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def decoding(sizes: Callable[[], Any], adapt: Callable[[Any], Any]) -> Callable[[Size], Work]:
    """64 new tokens, greedily, after a prompt of 32; each is a lap, the prompt belongs to the first."""

    def build(size: Size) -> Work:
        from transformers import DynamicCache

        model, prompt = adapt(decoder(sizes())), draw_ids(size["B"], 32)

        @torch.no_grad()
        def work() -> Iterator[Tensor]:
            cache, ids = DynamicCache(config=model.config), prompt
            for _ in range(NEW_TOKENS):
                scores = model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
                ids = scores[:, -1].argmax(dim=-1, keepdim=True)
                yield ids

        return work

    return build


def bare(model: Any) -> Any:
    return model


def prefixed(features: Any) -> Callable[[Any], Any]:
    def adapted(model: Any) -> Any:
        return attach(model, NTKConfig(features=features), calibration={"input_ids": draw_ids(4, 32)})

    return adapted


def _training(name: str, dropout: float, about: str) -> Benchmark:
    def goal(size: Size, at_most: float, of: Any) -> Goal:
        return Goal("ntk learned", "peft LoRA r=8", size, at_most=at_most, of=of)

    return Benchmark(
        name=name,
        about="A training step (forward, backward, AdamW) of a BERT of MiniLM's sizes, 16 padded sentences "
        f"of up to L tokens, float32, {about}. All layers have the adapter; the classifier is trained too.",
        sizes=LENGTHS,
        contestants=[
            Contestant("peft LoRA r=8", training_step(with_lora, dropout), same_work=False),
            Contestant("ntk learned", training_step(with_prefix("learned"), dropout), same_work=False),
            Contestant("ntk+lora", training_step(with_both, dropout), same_work=False),
            Contestant("ntk anchors", training_step(with_prefix("anchors"), dropout), same_work=False),
            Contestant("ntk elu", training_step(with_prefix("elu"), dropout), same_work=False),
        ],
        baseline="peft LoRA r=8",
        threads=2,
        goals=[
            *(goal(size, 1.15, "seconds") for size in LENGTHS),
            *(goal(size, 1.1, "peak_bytes") for size in LENGTHS),
        ],
    )


def _decoding(
    name: str, sizes: Callable[[], Any], about: str, ways: dict[str, Any], rounds: int
) -> Benchmark:
    return Benchmark(
        name=name,
        about=f"{NEW_TOKENS} tokens, greedily, after a prompt of 32, by a Llama of {about}, B sequences at "
        "once, float32. The contestants alternate token by token; the time is the sum of the smallest that "
        "each token took in any round.",
        sizes=[{"B": 1}, {"B": 8}],
        contestants=[
            Contestant(way, decoding(sizes, adapt), same_work=False, in_laps=True)
            for way, adapt in ways.items()
        ],
        baseline="bare model",
        threads=2,
        rounds=rounds,
        goals=[Goal("ntk learned", "bare model", {"B": size}, at_most=1 / 0.95) for size in (1, 8)],
    )


WAYS = {
    "bare model": bare,
    "ntk learned": prefixed("learned"),
    "ntk anchors": prefixed("anchors"),
    "ntk elu": prefixed("elu"),
}
BENCHMARKS = [
    _training("adapters-training", 0.0, "no dropout"),
    _training("adapters-training-dropout", 0.1, "dropout 0.1 as the model's config has it"),
    _decoding("adapters-decoding", small_llama, "6 layers of 512 (8 heads, 4 KV heads)", WAYS, 15),
    _decoding(
        "adapters-decoding-135m",
        smollm2_sized,
        "SmolLM2-135M's sizes, 30 layers of 576 (9 heads, 3 KV heads), with random weights",
        {way: WAYS[way] for way in ("bare model", "ntk learned", "ntk anchors")},
        9,
    ),
]
