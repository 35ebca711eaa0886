"""Export a tuned classifier to plain transformers or sentence-transformers.

LoRA is merged into the weights. The normalised mean over tokens becomes one more layer of the encoder: with
queries of 0 its attention is uniform, with values of 1 it returns the mean m, and its normalisation of
K m + h for a large K is that of m. Its MLP is 0. The pooler that follows is tanh(e x) for a small e, which
the classifier divides out.
"""

import json
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.files import real_folder, write_json, write_whole
from attangent.tuning.folders.export import TunedDescription, card_title
from attangent.tuning.folders.tuned import TunedModel, load_tuned
from attangent.tuning.loading import silent_transformers
from attangent.tuning.tasks import NEEDS

Target = Literal["transformers", "sentence-transformers"]
# Weight K of the mean against the residual h of the first token, and the argument e of the pooler's tanh.
_MEAN_WEIGHT = 2.0**16
_SMALL = 2.0**-10
# Types of model that take one more layer for the mean.
_WITH_MEAN = ("bert", "roberta", "xlm-roberta", "camembert")


def export_tuned(folder: Path, out: Path, to: Target, model: str | None = None) -> None:
    """Write a tuned classifier as a model that `to` loads by itself and that gives the same answers.

    Args:
        folder: Folder that `attangent tune` wrote.
        out: Folder to write.
        to: The library.
        model: New location of the base model, if it has moved.

    Raises:
        AttangentError: If the model has parts that the library cannot compute.
    """
    if out.exists() and any(out.iterdir() if out.is_dir() else [out]):
        raise AttangentError(f"{out} exists and is not empty; choose another folder.")
    tuned = load_tuned(folder, model)
    about = tuned.description
    if not NEEDS[about.kind].classifier or tuned.tokenizer is None:
        raise AttangentError(
            f"{folder} was tuned for {about.kind}; only text classifiers and regressions are exported."
        )
    merged = _merged(tuned)
    if NEEDS[about.kind].values:
        _in_units(merged, about)
    if to == "transformers":
        result = merged if about.pooling == "first" else with_mean_layer(merged, about.pooling)
        _write(result, tuned, out)
    else:
        _write_sentence_transformer(merged, tuned, out)


def _merged(tuned: TunedModel) -> Any:
    """Return the model with the adapter merged into its weights."""
    method = tuned.description.method
    if method.startswith("ntk") or method == "prefix":
        raise AttangentError(
            f"{method} adds to attention what no plain model has; tune with --method lora to export."
        )
    network = tuned.model
    if not hasattr(network, "merge_and_unload"):
        return network
    try:
        return network.merge_and_unload()
    except (ValueError, NotImplementedError, AttributeError) as error:
        raise AttangentError(f"peft cannot merge this adapter: {error}") from error


def with_mean_layer(model: Any, pooling: str) -> Any:
    """Return a plain model that computes the normalised mean in one more layer."""
    kind = model.config.model_type
    if pooling != "normalised" or kind not in _WITH_MEAN:
        raise AttangentError(
            f"plain transformers cannot compute the {pooling} pooling of a {kind} model; export it with "
            "--to sentence-transformers, or tune it again with this version (bert, roberta)."
        )
    config = type(model.config).from_dict(model.config.to_dict())
    config.num_hidden_layers += 1
    result = type(model)(config)
    missing, _ = result.load_state_dict(model.state_dict(), strict=False)
    layer = result.base_model.encoder.layer[-1]
    outside = [name for name in missing if f".layer.{config.num_hidden_layers - 1}." not in name]
    if outside:
        raise AttangentError(f"{type(model).__name__} lacks {', '.join(outside[:3])}; it cannot be exported.")
    with torch.no_grad():
        _fill_mean_layer(layer)
        if kind == "bert":  # the others keep their head, which reads the first token
            _put(result.bert.pooler.dense, _SMALL * torch.eye(config.hidden_size))
            _put(result.classifier, model.classifier.weight / _SMALL, model.classifier.bias)
    return result.eval()


def _fill_mean_layer(layer: Any) -> None:
    """Set the weights of a layer so that its first token is the normalised mean over tokens."""
    own = layer.attention.self
    size = own.value.weight.shape[0]
    for linear in (own.query, own.key, layer.intermediate.dense, layer.output.dense):
        _put(linear, torch.zeros_like(linear.weight))
    _put(own.value, torch.eye(size))
    _put(layer.attention.output.dense, _MEAN_WEIGHT * torch.eye(size))
    for norm in (layer.attention.output.LayerNorm, layer.output.LayerNorm):
        norm.weight.fill_(1)
        norm.bias.fill_(0)


def _put(layer: Any, weight: Tensor, bias: Tensor | None = None) -> None:
    layer.weight.copy_(weight)
    if layer.bias is not None:
        layer.bias.copy_(torch.zeros_like(layer.bias) if bias is None else bias)


def _write(model: Any, tuned: TunedModel, out: Path) -> None:
    real_folder(out)
    with silent_transformers():
        model.save_pretrained(out)
    _write_tokenizer(tuned, out)
    write_whole(out / "README.md", _card(tuned.description, "transformers", _PIPELINE))


def _in_units(model: Any, description: TunedDescription) -> None:
    """Let the classifier return values in the units of the training file."""
    names = dict(model.named_modules())
    layer = names.get("classifier.out_proj", names.get("classifier"))
    if not isinstance(layer, nn.Linear) or layer.bias is None:
        raise AttangentError(
            f"{type(model).__name__} has no linear output with a bias; it cannot be exported."
        )
    with torch.no_grad():
        layer.weight.mul_(description.scale)
        layer.bias.mul_(description.scale).add_(description.centre)


def _write_tokenizer(tuned: TunedModel, out: Path) -> None:
    """Save the tokenizer; with `truncation=True` it cuts texts where training cut them."""
    tokenizer = tuned.tokenizer
    special = tokenizer.num_special_tokens_to_add()
    tokenizer.model_max_length = min(tokenizer.model_max_length, tuned.description.max_tokens + special)
    tokenizer.save_pretrained(out)


def _write_sentence_transformer(model: Any, tuned: TunedModel, out: Path) -> None:
    """Write encoder, mean, normalisation and classifier as modules: `encode` returns the logits."""
    from safetensors.torch import save_file

    about = tuned.description
    layer = getattr(model, "classifier", None)
    if about.pooling == "first" or not isinstance(layer, nn.Linear):
        raise AttangentError(
            "sentence-transformers cannot compute this classifier; export it with --to transformers."
        )
    real_folder(out)
    with silent_transformers():
        model.base_model.save_pretrained(out)
    config = json.loads((out / "config.json").read_text())
    write_json(out / "config.json", config | {"id2label": dict(enumerate(about.labels))})
    _write_tokenizer(tuned, out)
    size = layer.in_features
    modules: dict[str, tuple[dict[str, Any], dict[str, Tensor]]] = {
        "Pooling": ({"word_embedding_dimension": size, "pooling_mode_mean_tokens": True}, {})
    }
    if about.pooling == "normalised":
        weights = {"norm.weight": torch.ones(size), "norm.bias": torch.zeros(size)}
        modules["LayerNorm"] = ({"dimension": size}, weights)
    dense = {"in_features": size, "out_features": layer.out_features, "bias": True}
    identity = {"activation_function": "torch.nn.modules.linear.Identity"}
    modules["Dense"] = (
        dense | identity,
        {"linear.weight": layer.weight.detach().contiguous(), "linear.bias": layer.bias.detach()},
    )
    entries = [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"}]
    for number, (name, (settings, weights)) in enumerate(modules.items(), 1):
        path = f"{number}_{name}"
        (out / path).mkdir()
        write_json(out / path / "config.json", settings)
        if weights:
            save_file(weights, out / path / "model.safetensors")
        kind = f"sentence_transformers.models.{name}"
        entries.append({"idx": number, "name": str(number), "path": path, "type": kind})
    limit = tuned.tokenizer.model_max_length
    write_json(out / "sentence_bert_config.json", {"max_seq_length": limit, "do_lower_case": False})
    write_whole(out / "modules.json", json.dumps(entries, indent=2))
    write_whole(out / "README.md", _card(about, "sentence-transformers", _ENCODE))


_PIPELINE = """from transformers import pipeline

print(pipeline("text-classification", model=".", truncation=True)(["Where is my order?"]))"""
_ENCODE = """from sentence_transformers import SentenceTransformer

model = SentenceTransformer(".")
logits = model.encode(["Where is my order?"])
print([model[0].auto_model.config.id2label[index] for index in logits.argmax(1)])"""


def _card(description: TunedDescription, library: str, snippet: str) -> str:
    header = (
        f"library_name: {library}\nbase_model: {description.base_model}\npipeline_tag: text-classification"
    )
    labels = f"Labels: {', '.join(description.labels)}." if description.labels else "Returns a number."
    return f"---\n{header}\n---\n\n# {card_title(description)}\n\n{labels}\n\n```python\n{snippet}\n```\n"
