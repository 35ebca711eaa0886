"""A toy chat model on disk for the tutorials and examples."""

from pathlib import Path

from tests.compression.cases import TEMPLATE, tiny_llama


def save_chat_model(folder: Path, words: list[str]) -> Path:
    """A random Llama of two layers that knows these words, with a chat template."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    known = ["[UNK]", "<", ">", "</", "system", "user", "assistant", "?", *words]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(known))}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.decoder = decoders.WordPiece(prefix="")
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]")
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    tiny_llama(layers=2, vocabulary=len(vocabulary)).save_pretrained(folder)
    return folder
