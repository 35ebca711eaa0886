"""A tuning method of your own: train every bias and nothing else (BitFit)."""

import csv
import tempfile
from pathlib import Path

from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

from attangent.tuning import Method, TrainingSettings, TuningRequest, load_tuned, tune
from attangent.tuning.methods.registry import TECHNIQUES
from attangent.tuning.methods.technique import WholeModel

WORDS = ("good", "fine", "bad", "poor", "film", "food", "day")


class BiasOnly(WholeModel):
    """Every bias and nothing else."""

    name = "bias"

    def default_rate(self, method):
        return 1e-3

    def added(self, model, method, context):
        for name, parameter in model.named_parameters():
            parameter.requires_grad_(name.endswith("bias"))
        return model


def toy_files(folder: Path) -> tuple[str, Path]:
    """A random encoder and 32 rows to tune it on; for a real one pass a Hub id."""
    words = {word: index for index, word in enumerate(["[PAD]", "[UNK]", *WORDS])}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", pad_token="[PAD]")
    wrapped.save_pretrained(folder / "model")
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
    BertModel(BertConfig(vocab_size=len(words), **sizes)).save_pretrained(folder / "model")
    with open(folder / "rows.csv", "w", newline="") as file:
        rows = [(f"{WORDS[i % 4]} {WORDS[4 + i % 3]}", "praise" if i % 4 < 2 else "blame") for i in range(32)]
        csv.writer(file).writerows([("text", "label"), *rows])
    return str(folder / "model"), folder / "rows.csv"


def main() -> None:
    TECHNIQUES["bias"] = BiasOnly()
    with tempfile.TemporaryDirectory() as name:
        model, rows = toy_files(Path(name))
        request = TuningRequest(model, rows, method=Method("bias"), training=TrainingSettings(epochs=2))
        (metrics,) = tune(request, Path(name) / "run")
        print(f"{metrics['parameters']:.0f} trained parameters, accuracy {metrics['eval_accuracy']:.2f}")
        print("loaded:", load_tuned(Path(name) / "run").predict(["good film"])[0].label)
    del TECHNIQUES["bias"]


if __name__ == "__main__":
    main()
