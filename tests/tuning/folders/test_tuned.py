"""Tuned folders: complete, loaded with one call, by transformers and by peft; those written before too."""

import json
import re
import shutil
import warnings
from functools import cache
from pathlib import Path

import pytest
import torch

import attangent
from attangent import AttangentError
from attangent.tuning import TuningRequest, tune
from attangent.tuning.folders.answers import InputRows, predictions_csv
from attangent.tuning.folders.export import TunedDescription, card_text
from attangent.tuning.folders.tuned import (
    LabelPrediction,
    is_tuned,
    load_tuned,
    weights_folder,
)
from attangent.tuning.methods import Method
from attangent.tuning.request import TrainingSettings
from tests.adapters.tiny import save_bert, save_vit, write_images, write_rows

pytestmark = pytest.mark.usefixtures("one_penalty")
OLD = Path(__file__).parents[2] / "fixtures/tuning/old-run"


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(folder / "train.jsonl", 24)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    return folder


def tuned_run(folder, out, method="ntk", **own):
    given = {"training": TrainingSettings(epochs=1, batch=8), "method": Method(method), **own}
    (metrics,) = tune(TuningRequest(str(folder), folder / "train.jsonl", folder / "eval.jsonl", **given), out)
    return metrics


@pytest.fixture(scope="module")
def runs(bert, tmp_path_factory):
    """Return the metrics and the folder of a run by method and pooling; each is tuned once."""

    @cache
    def run_of(method, pooling):
        out = tmp_path_factory.mktemp("run")
        return tuned_run(bert, out, method, pooling=pooling), out

    return run_of


@pytest.fixture(params=["first", "mean"])
def run(runs, request):
    return runs("ntk", request.param)


def texts_of(folder):
    rows = [json.loads(line) for line in (folder / "eval.jsonl").read_text().splitlines()]
    return [row["text"] for row in rows], [row["label"] for row in rows]


@pytest.mark.parametrize("method", ["ntk", "lora", "prefix", "head", "full", "ntk+lora"])
@pytest.mark.parametrize("pooling", ["first", "normalised"])
def test_every_method_loads_and_repeats_its_score(bert, runs, method, pooling):
    metrics, folder = runs(method, pooling)
    found = load_tuned(folder)
    texts, labels = texts_of(bert)
    answers = found.predict(texts)
    assert found.labels == ("cat", "dog")
    hits = [answer.label == label for answer, label in zip(answers, labels, strict=True)]
    assert sum(hits) / len(hits) == metrics["eval_accuracy"]
    losses = [-torch.tensor(a.probabilities[y]).log() for a, y in zip(answers, labels, strict=True)]
    assert float(sum(losses) / len(losses)) == pytest.approx(metrics["eval_loss"], abs=1e-4)


def test_the_cards_snippet_runs(run, capsys):
    card = (run[1] / "seed-0/adapter/README.md").read_text()
    (snippet,) = re.findall(r"```python\n(.*?)```", card, re.S)
    exec(snippet, {})
    assert "Prediction(label=" in capsys.readouterr().out
    assert f"accuracy {run[0]['eval_accuracy']:.4f}" in card
    assert f"On {run[0]['rows_scored']} rows that it was scored on" in card
    assert "# A model, tuned with attangent" in card  # no relative path


@pytest.mark.parametrize("method", ["ntk", "lora", "ntk+lora", "head"])
def test_a_pipeline_takes_it(bert, runs, method):
    found = attangent.load_tuned(runs(method, "normalised")[1])
    texts, _ = texts_of(bert)
    ours = found.predict(texts)
    for answer, theirs in zip(ours, found.pipeline()(texts), strict=True):
        assert theirs["label"] == answer.label
        assert theirs["score"] == pytest.approx(answer.probability, abs=1e-5)


@pytest.mark.parametrize("method", ["head", "full"])
def test_a_pipeline_by_path_takes_a_whole_model_that_reads_one_token(bert, runs, method):
    from transformers import pipeline

    _, folder = runs(method, "first")
    texts, _ = texts_of(bert)
    theirs = pipeline("text-classification", model=str(folder / "seed-0/model"))(texts)
    ours = load_tuned(folder).predict(texts)
    assert [one["label"] for one in theirs] == [one.label for one in ours]


def test_there_is_no_pipeline_for_numbers(bert, tmp_path):
    rows = [{"text": text, "label": place} for place, text in enumerate(texts_of(bert)[0])]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = TuningRequest(str(bert), tmp_path / "rows.jsonl", task="regression", method=Method("probe"))
    tune(given, tmp_path / "out")
    with pytest.raises(AttangentError, match="no pipeline for regression"):
        load_tuned(tmp_path / "out").pipeline()
    card = (tmp_path / "out/seed-0/model/README.md").read_text()
    assert "Predicts a number" in card
    (snippet,) = re.findall(r"```python\n(.*?)```", card, re.S)
    exec(snippet, {})


def test_peft_loads_it(bert, runs):
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification

    from attangent.adapters.peft import register

    register()
    texts, _ = texts_of(bert)
    for method in ("ntk", "lora"):
        _, folder = runs(method, "first")
        found = load_tuned(folder)
        inputs = found.tokenizer(texts, padding=True, return_tensors="pt")
        base = AutoModelForSequenceClassification.from_pretrained(bert)
        theirs = PeftModel.from_pretrained(base, weights_folder(folder)).eval()
        with torch.no_grad():
            torch.testing.assert_close(theirs(**inputs).logits, found.model(**inputs).logits)


def test_weights_that_read_means_are_not_loaded_unawares(bert, runs):
    _, folder = runs("ntk", "mean")
    from transformers import AutoModelForSequenceClassification

    base = AutoModelForSequenceClassification.from_pretrained(bert)
    with pytest.raises(AttangentError, match=r"pooling 'mean'.*load_tuned"):
        attangent.load_adapter(base, folder / "seed-0/adapter")


def test_the_base_model_may_have_moved(bert, tmp_path):
    model = shutil.copytree(bert, tmp_path / "model")
    tuned_run(model, tmp_path / "run")
    before = load_tuned(tmp_path / "run").predict(["the cat"])
    model.rename(tmp_path / "moved")
    with pytest.raises(AttangentError, match="there is no folder"):
        load_tuned(tmp_path / "run")
    assert load_tuned(tmp_path / "run", str(tmp_path / "moved")).predict(["the cat"]) == before


def test_images(tmp_path):
    folder = save_vit(tmp_path / "vit")
    data = [write_images(tmp_path / part, 6, seed) for seed, part in enumerate(("train", "eval"))]
    given = TuningRequest(
        str(folder), *data, method=Method("ntk", top=1), training=TrainingSettings(epochs=1, batch=4)
    )
    (metrics,) = tune(given, tmp_path / "out")
    assert given.kind == "image-classification"
    assert metrics["head_parameters"] == 34
    files = sorted((tmp_path / "eval").rglob("*.png"))
    answers = load_tuned(tmp_path / "out").predict(files)
    hits = [answer.label == file.parent.name for answer, file in zip(answers, files, strict=True)]
    assert sum(hits) / len(hits) == metrics["eval_accuracy"]


def test_folders_written_before_load(tmp_path, monkeypatch):
    shutil.copytree(OLD, tmp_path / "run")
    save_bert(tmp_path / "bert")
    write_rows(tmp_path / "train.jsonl", 4)
    monkeypatch.chdir(tmp_path)
    found = load_tuned("run")
    assert found.labels == ("LABEL_0", "LABEL_1")
    assert is_tuned(Path("run"))
    assert set(found.predict(["the cat"])[0].probabilities) == {"LABEL_0", "LABEL_1"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "other"}, "does not say"),
        ({"method": "magic"}, "method is 'magic'"),
        ({"labels": "cat"}, r"Expected `array`, got `str` - at `\$.labels`"),
        ({"labels": ["cat", "cat"]}, "labels has 'cat' twice"),
        ({"labels": [1]}, r"Expected `str`, got `int` - at `\$.labels"),
        ({"pooling": "max"}, "Invalid enum value 'max'"),
        ({"script": "x"}, "unknown settings script"),
        ({"max_tokens": 0}, "max_tokens is 0"),
    ],
)
def test_descriptions_that_are_refused(run, tmp_path, change, message):
    place = shutil.copytree(run[1] / "seed-0/adapter", tmp_path / "adapter")
    content = json.loads((place / "tuned.json").read_text()) | change
    (place / "tuned.json").write_text(json.dumps(content))
    with pytest.raises(AttangentError, match=message):
        load_tuned(place)


def test_what_is_no_tuned_folder_is_said(bert, tmp_path):
    with pytest.raises(AttangentError, match="there is no folder"):
        load_tuned(tmp_path / "none")
    with pytest.raises(AttangentError, match="holds no tuned model"):
        load_tuned(tmp_path)
    for seed in (0, 1):
        (tmp_path / f"seed-{seed}").mkdir()
    with pytest.raises(AttangentError, match="choose one of seed-0, seed-1"):
        load_tuned(tmp_path)
    assert not is_tuned(tmp_path)


def test_peft_alone_refuses_an_adapter_that_reads_means(bert, runs):
    from peft import PeftModel
    from transformers import AutoModelForSequenceClassification

    _, folder = runs("lora", "normalised")
    base = AutoModelForSequenceClassification.from_pretrained(bert)
    with pytest.raises(KeyError, match=r"LORA with mean pooling: use attangent.load_tuned"):
        PeftModel.from_pretrained(base, weights_folder(folder))


def test_peft_asks_for_nothing_that_transformers_has_renamed(bert, tmp_path):
    with warnings.catch_warnings():
        warnings.simplefilter("error", FutureWarning)
        tuned_run(bert, tmp_path, "lora")
        found = load_tuned(tmp_path)
    assert "is_gradient_checkpointing" not in vars(type(found.model.get_base_model()))


def test_the_base_model_is_named_by_hub_id_or_relative_path(tmp_path):
    revision = "0123456789" * 4
    cached = save_bert(tmp_path / f"models--org--tiny/snapshots/{revision}")
    write_rows(tmp_path / "rows.jsonl", 16)
    for name, model in (("hub", cached), ("local", save_bert(tmp_path / "model"))):
        given = TuningRequest(
            str(model), tmp_path / "rows.jsonl", method=Method("lora"), training=TrainingSettings(epochs=1)
        )
        tune(given, tmp_path / name)
    hub, local = (
        json.loads((tmp_path / f"{name}/seed-0/adapter/tuned.json").read_text()) for name in ("hub", "local")
    )
    assert (hub["base_model"], hub["revision"]) == ("org/tiny", revision)
    assert local["base_model"] == "../../../model"
    config = json.loads((tmp_path / "hub/seed-0/adapter/adapter_config.json").read_text())
    assert (config["base_model_name_or_path"], config["revision"]) == ("org/tiny", revision)
    (tmp_path / "elsewhere").mkdir()
    for name in ("model", "local"):
        (tmp_path / name).rename(tmp_path / "elsewhere" / name)
    assert load_tuned(tmp_path / "elsewhere/local").predict(["the cat"])


def test_a_base_in_bfloat16(bert, tmp_path):
    from transformers import AutoModel, AutoTokenizer

    AutoModel.from_pretrained(bert).to(torch.bfloat16).save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(bert).save_pretrained(tmp_path / "model")
    files = {name: bert / f"{name}.jsonl" for name in ("train", "eval")}
    given = TuningRequest(
        str(tmp_path / "model"), *files.values(), training=TrainingSettings(epochs=1, batch=8)
    )
    (metrics,) = tune(given, tmp_path / "run")
    found = load_tuned(tmp_path / "run")
    assert next(found.model.parameters()).dtype == torch.bfloat16
    texts, labels = texts_of(bert)
    hits = [one.label == label for one, label in zip(found.predict(texts), labels, strict=True)]
    assert sum(hits) / len(hits) == pytest.approx(metrics["eval_accuracy"], abs=1 / 16)


def test_a_label_with_a_comma_is_quoted_on_the_card(tmp_path):
    described = TunedDescription("base", "classification", "ntk", ("price, tax", "size"))
    assert 'Classifies into "price, tax", size.' in card_text(tmp_path, described, {})


def test_one_text_is_no_list_of_texts(run):
    with pytest.raises(AttangentError, match=re.escape("expected a list: predict(['the cat'])")):
        load_tuned(run[1]).predict("the cat")


def test_labels_and_files_that_a_spreadsheet_would_run_get_an_apostrophe():
    predictions = [
        LabelPrediction("=1+1", {"=1+1": 0.75, "-3": 0.25}),
        LabelPrediction("-3", {"=1+1": 0.0, "-3": 1.0}),
    ]
    text = predictions_csv(predictions, InputRows([], ("file",), [("@a.png",), ("b.png",)]))
    assert text.splitlines() == [
        "file,label,probability,probability_=1+1,probability_-3",
        "'@a.png,'=1+1,0.750000,0.750000,0.250000",
        "b.png,-3,1.000000,0.000000,1.000000",
    ]
