"""Tiny random models of every kind, with inputs: what the matrix of checks runs over."""

from collections.abc import Callable
from typing import Any

import torch

from attangent._core.random import generator
from attangent.adapters import states_of

VOCABULARY = 61
_SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": VOCABULARY}
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_DECODER = _SIZES | _TOKENS | {"intermediate_size": 48, "max_position_embeddings": 64}
_ENCODER = _SIZES | {"intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0}
_LAYERS = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 48}
_VISION = _LAYERS | {"image_size": 8, "patch_size": 4, "num_labels": 3}


def _decoder(name: str, **own: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        config = getattr(transformers, f"{name}Config")(**_DECODER | own)
        return getattr(transformers, f"{name}ForCausalLM")(config)

    return make


def _encoder(name: str, **own: Any) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        config = getattr(transformers, f"{name}Config")(**_ENCODER | {"num_labels": 3} | own)
        return getattr(transformers, f"{name}ForSequenceClassification")(config)

    return make


def _vision(name: str) -> Callable[[], Any]:
    def make() -> Any:
        import transformers

        config = getattr(transformers, f"{name}Config")(**_VISION)
        return getattr(transformers, f"{name}ForImageClassification")(config)

    return make


def _gpt2() -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    return GPT2LMHeadModel(
        GPT2Config(n_embd=32, n_layer=2, n_head=4, vocab_size=VOCABULARY, n_positions=64, **_TOKENS)
    )


def _distilbert() -> Any:
    from transformers import DistilBertConfig, DistilBertForSequenceClassification

    config = DistilBertConfig(
        dim=32, n_layers=2, n_heads=4, hidden_dim=48, vocab_size=VOCABULARY, num_labels=3, pad_token_id=0
    )
    return DistilBertForSequenceClassification(config)


def _whisper() -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        d_model=32,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        vocab_size=VOCABULARY,
        num_mel_bins=8,
        max_source_positions=10,
        max_target_positions=32,
        decoder_start_token_id=1,
        suppress_tokens=None,
        begin_suppress_tokens=None,
        **_TOKENS,
    )
    return WhisperForConditionalGeneration(config)


def _t5() -> Any:
    from transformers import T5Config, T5ForConditionalGeneration

    config = T5Config(
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        vocab_size=VOCABULARY,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=2,
        dropout_rate=0.0,
    )
    return T5ForConditionalGeneration(config)


_MAKERS = {
    "gpt2": _gpt2,
    "llama": _decoder("Llama", num_key_value_heads=2),
    "mistral": _decoder("Mistral", num_key_value_heads=2, sliding_window=6),
    "qwen2": _decoder("Qwen2", num_key_value_heads=2),
    "qwen3": _decoder("Qwen3", num_key_value_heads=1, head_dim=16),
    "gemma2": _decoder(
        "Gemma2", num_key_value_heads=2, head_dim=8, query_pre_attn_scalar=12, sliding_window=6
    ),
    "phi": _decoder("Phi"),
    "bert": _encoder("Bert"),
    "roberta": _encoder("Roberta", pad_token_id=1),
    "distilbert": _distilbert,
    "vit": _vision("ViT"),
    "deit": _vision("DeiT"),
    "whisper": _whisper,
    "t5": _t5,
}
MODELS = list(_MAKERS)
GENERATING = ["gpt2", "llama", "mistral", "qwen2", "qwen3", "gemma2", "phi", "whisper", "t5"]
DECODERS = GENERATING[:-2]


def tiny(name: str, seed: int = 0) -> Any:
    """The model of this name with random weights, in evaluation mode; logits spread enough to matter."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = _MAKERS[name]().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.ndim == 2 and name != "t5":  # its own start is large enough
                    parameter.mul_(4)
    return model


def inputs(name: str, seed: int = 0, side: str = "right") -> dict[str, torch.Tensor]:
    """Inputs for the model of this name: three examples of different lengths, padded on this side."""
    draw = generator(seed, f"inputs {name}")
    if name in ("vit", "deit"):
        return {"pixel_values": torch.randn(3, 3, 8, 8, generator=draw)}
    if name == "whisper":
        return {
            "input_features": torch.randn(3, 8, 20, generator=draw),
            "decoder_input_ids": torch.randint(3, VOCABULARY, (3, 5), generator=draw),
        }
    ids = torch.randint(3, VOCABULARY, (3, 9), generator=draw)
    mask = torch.ones_like(ids)
    for row, pads in enumerate((0, 2, 5)):
        hidden = slice(0, pads) if side == "left" else slice(9 - pads, 9)
        mask[row, hidden] = 0
    ids = torch.where(mask.bool(), ids, 1 if name == "roberta" else 0)
    found = {"input_ids": ids, "attention_mask": mask}
    if name == "t5":
        found["decoder_input_ids"] = torch.randint(3, VOCABULARY, (3, 5), generator=draw)
    return found


def valid_logits(name: str, model: Any, given: dict[str, torch.Tensor]) -> torch.Tensor:
    """The model's logits, those at padded places left out."""
    logits = model(**given).logits
    if name in DECODERS:
        return logits[given["attention_mask"].bool()]
    return logits


def logits(model: Any, given: dict[str, Any]) -> torch.Tensor:
    """What the model answers, without gradients."""
    with torch.no_grad():
        return model(**given).logits


def shake(model: Any, name: str = "default", seed: int = 1) -> Any:
    """The model with every parameter of its states moved a little."""
    draw = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for state in states_of(model, name).values():
            for parameter in state.parameters():
                parameter.add_(0.3 * torch.randn(parameter.shape, generator=draw))
    return model
