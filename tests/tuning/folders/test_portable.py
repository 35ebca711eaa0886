"""Exports that plain transformers and sentence-transformers load: the same answers."""

import json

import pytest
import torch
from safetensors.torch import load_file

from attangent import AttangentError
from attangent.tuning import TrainingSettings, TuningRequest, load_tuned, tune
from attangent.tuning.folders.portable import export_tuned, with_mean_layer
from attangent.tuning.loading import load_base
from attangent.tuning.methods import Method
from tests.adapters.tiny import save_bert, save_vit, write_images, write_rows

pytestmark = pytest.mark.usefixtures("one_penalty")
TEXTS = ["the cat sleeps", "a dog", "the old red dog runs", "no cat is new . the sun is blue"]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(folder / "train.jsonl", 24)
    return folder


def tuned_run(bert, out, method="lora", **settings):
    given = TuningRequest(
        str(bert),
        bert / "train.jsonl",
        method=Method.from_dict({"name": method}),
        training=TrainingSettings(epochs=2, batch=8),
        **settings,
    )
    tune(given, out)
    return load_tuned(out)


@pytest.mark.parametrize(
    ("method", "pooling"), [("lora", "normalised"), ("probe", "normalised"), ("lora", "first")]
)
def test_plain_transformers_gives_the_same_answers(bert, tmp_path, method, pooling):
    from transformers import pipeline

    ours = tuned_run(bert, tmp_path / "run", method, pooling=pooling).predict(TEXTS)
    export_tuned(tmp_path / "run", tmp_path / "out", "transformers")
    plain = pipeline("text-classification", model=str(tmp_path / "out"))
    for batch in (1, 4):
        for answer, theirs in zip(ours, plain(TEXTS, batch_size=batch), strict=True):
            assert theirs["label"] == answer.label
            assert theirs["score"] == pytest.approx(answer.probability, abs=1e-5)


def test_roberta_too(tmp_path):
    from transformers import RobertaConfig, RobertaForSequenceClassification

    torch.manual_seed(0)
    sizes = {"hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 48, "num_hidden_layers": 2}
    config = RobertaConfig(vocab_size=40, max_position_embeddings=40, initializer_range=0.3, **sizes)
    RobertaForSequenceClassification(config).save_pretrained(tmp_path)
    model = load_base(tmp_path, "classification", ("a", "b"), pooling="normalised").eval()
    ids = torch.randint(3, 40, (3, 9))
    mask = (torch.arange(9) < torch.tensor([[9], [4], [6]])).long()
    ids = torch.where(mask.bool(), ids, 1)
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask).logits
        found = with_mean_layer(model, "normalised")(input_ids=ids, attention_mask=mask).logits
    torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)


def test_numbers_come_in_the_units_of_the_file(bert, tmp_path):
    from transformers import pipeline

    rows = [
        {"text": f"the cat {n % 10} {'dog' if n % 3 else 'sun'}", "label": 100 + 7.5 * (n % 10)}
        for n in range(20)
    ]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = TuningRequest(
        str(bert), tmp_path / "rows.jsonl", task="regression", method=Method("probe"), pooling="normalised"
    )
    tune(given, tmp_path / "run")
    export_tuned(tmp_path / "run", tmp_path / "out", "transformers")
    ours = load_tuned(tmp_path / "run").predict(["the cat 3 dog"])[0].value
    plain = pipeline("text-classification", model=str(tmp_path / "out"), function_to_apply="none")
    assert plain("the cat 3 dog")[0]["score"] == pytest.approx(ours, abs=1e-2)


def test_sentence_transformers_modules(bert, tmp_path):
    """sentence-transformers itself is not installed here: its modules are followed by hand."""
    from transformers import AutoModel, AutoTokenizer

    ours = tuned_run(bert, tmp_path / "run", pooling="normalised").predict(TEXTS)
    out = tmp_path / "out"
    export_tuned(tmp_path / "run", out, "sentence-transformers")
    modules = json.loads((out / "modules.json").read_text())
    assert [module["path"] for module in modules] == ["", "1_Pooling", "2_LayerNorm", "3_Dense"]
    assert json.loads((out / "1_Pooling/config.json").read_text())["pooling_mode_mean_tokens"] is True
    inputs = AutoTokenizer.from_pretrained(out)(TEXTS, padding=True, return_tensors="pt")
    with torch.no_grad():
        states = AutoModel.from_pretrained(out)(**inputs).last_hidden_state
        mask = inputs["attention_mask"].unsqueeze(-1)
        mean = (states * mask).sum(1) / mask.sum(1)
        norm = load_file(out / "2_LayerNorm/model.safetensors")
        vector = torch.nn.functional.layer_norm(mean, (32,), norm["norm.weight"], norm["norm.bias"])
        dense = load_file(out / "3_Dense/model.safetensors")
        shares = (vector @ dense["linear.weight"].T + dense["linear.bias"]).softmax(-1)
    names = json.loads((out / "config.json").read_text())["id2label"]
    for answer, share in zip(ours, shares, strict=True):
        assert names[str(int(share.argmax()))] == answer.label
        assert float(share.max()) == pytest.approx(answer.probability, abs=1e-4)


def test_exports_that_are_refused(bert, tmp_path):
    tuned_run(bert, tmp_path / "state", "ntk", pooling="normalised")
    with pytest.raises(AttangentError, match="ntk adds to attention what no plain model has"):
        export_tuned(tmp_path / "state", tmp_path / "out", "transformers")
    tuned_run(bert, tmp_path / "old", "probe", pooling="mean")
    with pytest.raises(AttangentError, match="cannot compute the mean pooling of a bert model"):
        export_tuned(tmp_path / "old", tmp_path / "out", "transformers")
    tuned_run(bert, tmp_path / "first", "probe", pooling="first")
    with pytest.raises(AttangentError, match="--to transformers"):
        export_tuned(tmp_path / "first", tmp_path / "out", "sentence-transformers")
    with pytest.raises(AttangentError, match="exists and is not empty"):
        export_tuned(tmp_path / "first", tmp_path / "first", "transformers")
    assert not (tmp_path / "out").exists()
    images = write_images(tmp_path / "images", 4, 0)
    vit = save_vit(tmp_path / "vit")
    tune(TuningRequest(str(vit), images, images, method=Method("probe")), tmp_path / "pictures")
    with pytest.raises(AttangentError, match="was tuned for image-classification"):
        export_tuned(tmp_path / "pictures", tmp_path / "out", "transformers")
