"""A compression method of your own: keep the first and the last tokens of a prompt."""

import tempfile

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

import attangent
from attangent.compression import METHODS, CompressionMethod

TEXT = "the keeper of the tower is old and the light of the tower is green " * 6


class FirstAndLast(CompressionMethod):
    """The first four tokens and the last ones, unchanged."""

    name = "first-and-last"

    def choose(self, scores, size):
        def ends(total):
            return torch.cat([torch.arange(4), torch.arange(total - size + 4, total)])

        return {layer: [ends(len(head)) for head in heads] for layer, heads in scores.items()}

    def fit_head(self, problem, chosen):
        return problem.keys[chosen], torch.ones(len(chosen)), problem.values[chosen]  # keys, masses, values


def toy_model():
    """A random Llama that knows these words; for a real one use from_pretrained."""
    words = {word: index for index, word in enumerate(["[UNK]", *dict.fromkeys(TEXT.split())])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = LlamaConfig(vocab_size=len(words), eos_token_id=None, bos_token_id=None, **sizes)
    return LlamaForCausalLM(config).eval(), PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, unk_token="[UNK]"
    )


def main() -> None:
    METHODS["first-and-last"] = FirstAndLast()
    model, tokenizer = toy_model()
    prompt = attangent.compress(model, tokenizer, TEXT, size=16, method="first-and-last")
    print(prompt)
    with tempfile.TemporaryDirectory() as folder:
        prompt.save(model, folder)
        attangent.load_adapter(model, folder)
    logits = model(**tokenizer("is the tower green", return_tensors="pt")).logits
    print("loaded, and answers with it:", bool(logits.isfinite().all()))
    del METHODS["first-and-last"]


if __name__ == "__main__":
    main()
