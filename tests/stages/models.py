"""Tiny random Hugging Face models of several architectures, each with an input."""

from collections.abc import Callable

import torch
import transformers
from torch import Tensor, nn

SIZES = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 16}
WORDS = 40


def gpt2() -> nn.Module:
    config = transformers.GPT2Config(
        n_embd=24, n_layer=2, n_head=4, n_positions=16, vocab_size=WORDS, bos_token_id=0, eos_token_id=0
    )
    return transformers.GPT2LMHeadModel(config)


def llama() -> nn.Module:
    config = transformers.LlamaConfig(**SIZES, num_key_value_heads=2, vocab_size=WORDS, attention_bias=True)
    return transformers.LlamaForCausalLM(config)


def qwen3() -> nn.Module:
    config = transformers.Qwen3Config(**SIZES, num_key_value_heads=2, head_dim=8, vocab_size=WORDS)
    return transformers.Qwen3ForCausalLM(config)


def bert() -> nn.Module:
    return transformers.BertModel(transformers.BertConfig(**SIZES, vocab_size=WORDS))


def vit() -> nn.Module:
    return transformers.ViTModel(transformers.ViTConfig(**SIZES, image_size=8, patch_size=4))


def phi3() -> nn.Module:
    config = transformers.Phi3Config(**SIZES, num_key_value_heads=2, vocab_size=WORDS, pad_token_id=0)
    return transformers.Phi3ForCausalLM(config)


def distilbert() -> nn.Module:
    config = transformers.DistilBertConfig(dim=24, hidden_dim=16, n_layers=2, n_heads=4, vocab_size=WORDS)
    return transformers.DistilBertModel(config)


def opt() -> nn.Module:
    config = transformers.OPTConfig(
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        ffn_dim=16,
        vocab_size=WORDS,
        word_embed_proj_dim=24,
    )
    return transformers.OPTModel(config)


MAKERS: dict[str, Callable[[], nn.Module]] = {
    make.__name__: make for make in (gpt2, llama, qwen3, bert, vit, phi3, distilbert, opt)
}


def made(name: str) -> nn.Module:
    """The model with weights of seed 0; biases that are not zero, and attention far from uniform."""
    torch.manual_seed(0)
    model = MAKERS[name]().eval()
    with torch.no_grad():
        for part, tensor in model.named_parameters():
            if part.endswith("bias"):
                tensor.normal_(std=0.1)
            elif "att" in part and tensor.dim() == 2:
                tensor.mul_(10)
    return model


@torch.no_grad()
def output(model: nn.Module) -> Tensor:
    """What the model makes of a fixed input."""
    random = torch.Generator().manual_seed(1)
    if model.config.model_type == "vit":
        return model(torch.randn(2, 3, 8, 8, generator=random)).last_hidden_state
    return model(torch.randint(1, WORDS, (2, 7), generator=random))[0]
