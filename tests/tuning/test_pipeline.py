"""Tuning on files, whole: what is written, what is refused, what is not computed twice."""

import json
from dataclasses import replace

import pytest
import torch

from attangent import AttangentError
from attangent._core.files import only_writer
from attangent.adapters import load_adapter
from attangent.tuning import TunedModel, TuningRequest, tune
from attangent.tuning.folders.tuned import load_tuned
from attangent.tuning.loading import load_model
from attangent.tuning.methods import Method
from attangent.tuning.prepared import prepare
from attangent.tuning.request import TrainingSettings
from tests.adapters.tiny import save_bert, save_llama, write_rows

pytestmark = pytest.mark.usefixtures("one_penalty")
SHORT = TrainingSettings(epochs=1, batch=8)


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(folder / "train.jsonl", 24)
    write_rows(folder / "eval.jsonl", 16, seed=1)
    return folder


@pytest.fixture(scope="module")
def llama(tmp_path_factory):
    folder = save_llama(tmp_path_factory.mktemp("llama"))
    rows = [{"prompt": f"{a} {b} ?", "completion": f" {a} ."} for a in range(4) for b in range(5)]
    (folder / "math.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def tuning(folder, **own):
    files = {"train": folder / "train.jsonl", "evaluate": folder / "eval.jsonl"}
    return TuningRequest(str(folder), **{**files, "training": SHORT, **own})


def test_a_run_writes_adapter_metrics_and_settings_once(bert, tmp_path, monkeypatch):
    (found,) = tune(tuning(bert), tmp_path)
    folder = tmp_path / "seed-0"
    assert {path.name for path in folder.iterdir()} == {
        *("adapter", "metrics.json", "settings.json", "confusion.csv", "wrong.csv")
    }
    assert json.loads((folder / "metrics.json").read_text()) == found
    assert json.loads((folder / "settings.json").read_text())["method"]["name"] == "lora"
    monkeypatch.setattr("attangent.tuning.pipeline.prepare", None)
    assert tune(tuning(bert), tmp_path) == [found]
    with pytest.raises(AttangentError, match="holds a run with other settings"):
        tune(tuning(bert, max_tokens=5), tmp_path)


def test_the_saved_adapter_gives_the_scores_back(bert, tmp_path):
    given = tuning(bert, method=Method("ntk"), training=TrainingSettings(epochs=3, batch=8))
    (found,) = tune(given, tmp_path)
    model = load_model(bert, "classification", ("cat", "dog"), seed=7)
    load_adapter(model, tmp_path / "seed-0/adapter")
    prepared = prepare(tuning(bert))
    with torch.no_grad():
        batch = prepared.collate(prepared.evaluate)
        labels = batch.pop("labels")
        hits = (model.eval()(**batch).logits.argmax(-1) == labels).double().mean()
    assert float(hits) == found["eval_accuracy"]


def test_seeds_differ(bert, tmp_path):
    first, second = tune(tuning(bert), tmp_path, seeds=2)
    assert (first["seed"], second["seed"]) == (0, 1)
    assert first["eval_loss"] != second["eval_loss"]


@pytest.mark.parametrize(
    ("name", "place"), [("lora", "adapter"), ("head", "model"), ("ntk+lora", "adapter/lora")]
)
def test_other_methods_save_what_their_libraries_read(bert, tmp_path, name, place):
    tune(tuning(bert, method=Method(name)), tmp_path)
    files = {path.name for path in (tmp_path / "seed-0" / place).iterdir()}
    assert files & {"adapter_model.safetensors", "model.safetensors"}


def test_too_long_and_wrong_labels_are_said_before_training(bert, tmp_path):
    (tmp_path / "odd.jsonl").write_text('{"text": "a", "label": "bird"}\n{"text": "b", "label": "cat"}\n')
    with pytest.raises(AttangentError, match="has the labels bird"):
        tune(tuning(bert, evaluate=tmp_path / "odd.jsonl"), tmp_path / "out")
    (tmp_path / "long.jsonl").write_text(json.dumps({"text": "the cat " * 60, "label": "cat"}) + "\n")
    with pytest.raises(AttangentError, match="the model takes 48"):
        tune(tuning(bert, evaluate=tmp_path / "long.jsonl"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_changed_data_and_settings_are_named(bert, tmp_path):
    train = tmp_path / "train.jsonl"
    train.write_text((bert / "train.jsonl").read_text())
    tune(tuning(bert, train=train), tmp_path / "out")
    with pytest.raises(AttangentError, match=r"\(max_tokens: 128, now 5; training.batch: 8, now 4\)"):
        tune(
            tuning(bert, train=train, max_tokens=5, training=TrainingSettings(epochs=1, batch=4)),
            tmp_path / "out",
        )
    train.write_text(train.read_text() + '{"text": "the cat", "label": "cat"}\n')
    with pytest.raises(AttangentError, match=r"other settings \(the rows have changed\)"):
        tune(tuning(bert, train=train), tmp_path / "out")


def test_only_one_process_tunes_into_a_folder(bert, tmp_path):
    folder = tmp_path / "seed-0"
    folder.mkdir()
    with only_writer(folder, "tune"), pytest.raises(AttangentError, match="another tune is writing to"):
        tune(tuning(bert), tmp_path)
    assert list(folder.iterdir()) == []


def test_rows_to_score_on_are_kept_apart_where_none_are_given(bert):
    ground = prepare(tuning(bert, evaluate=None))
    assert (len(ground.train), len(ground.evaluate)) == (20, 4)
    assert [row["labels"] for row in ground.evaluate].count(0) == 2


def test_the_saved_model_is_trained_on_all_rows_unless_told_otherwise(bert, tmp_path):
    given = tuning(bert, evaluate=None, method=Method("lora"))
    (found,) = tune(given, tmp_path / "all")
    everything = tuning(bert, evaluate=bert / "train.jsonl", method=Method("lora"))
    tune(everything, tmp_path / "same")
    (kept,) = tune(replace(given, keep_holdout=True), tmp_path / "kept")
    assert (found["rows_trained"], found["rows_scored"], found["rows_saved"]) == (20, 4, 24)
    assert 0 <= found["eval_accuracy"] <= 1
    assert "rows_saved" not in kept
    assert kept["eval_loss"] == found["eval_loss"]
    tuned = [dict(load_tuned(tmp_path / name).model.named_parameters()) for name in ("all", "same", "kept")]
    for name, weight in tuned[0].items():
        torch.testing.assert_close(weight, tuned[1][name])
    assert any(not torch.equal(weight, tuned[2][name]) for name, weight in tuned[0].items())
    names = {path.name for path in (tmp_path / "all/seed-0").iterdir()}
    assert names == {"adapter", "metrics.json", "settings.json", "confusion.csv", "wrong.csv"}
    with pytest.raises(AttangentError, match="keep_holdout is set, but evaluate"):
        replace(everything, keep_holdout=True)


def test_a_run_that_stopped_after_its_scores_goes_on_with_all_rows(bert, tmp_path, monkeypatch):
    given = tuning(bert, evaluate=None)
    (found,) = tune(given, tmp_path / "a")
    monkeypatch.setattr("attangent.tuning.pipeline.export_model", _stop)
    with pytest.raises(KeyboardInterrupt):
        tune(given, tmp_path / "b")
    monkeypatch.undo()
    assert (tmp_path / "b/seed-0/scores.json").is_file()
    monkeypatch.setattr("attangent.tuning.pipeline.outputs_of", None)  # nothing is scored again
    (resumed,) = tune(given, tmp_path / "b")
    assert resumed["eval_loss"] == found["eval_loss"]
    tensors = [load_tuned(tmp_path / name).model.state_dict() for name in "ab"]
    assert all(torch.equal(tensors[0][name], tensors[1][name]) for name in tensors[0])


def _stop(*_):
    raise KeyboardInterrupt


def test_class_weights_count_every_class_the_same(bert, tmp_path):
    lines = (bert / "train.jsonl").read_text().splitlines()
    cats = [line for line in lines if '"label": "cat"' in line]
    (tmp_path / "odd.jsonl").write_text("\n".join([*cats, *lines[:4]]) + "\n")
    ground = prepare(tuning(bert, train=tmp_path / "odd.jsonl", class_weights=True))
    targets = torch.tensor([row["labels"] for row in ground.train])
    weights = ground.class_weights
    assert weights[targets].sum().item() == pytest.approx(len(targets))
    assert weights[0] * (targets == 0).sum() == pytest.approx(float(weights[1] * (targets == 1).sum()))
    given = [tuning(bert, train=tmp_path / "odd.jsonl", class_weights=on) for on in (False, True)]
    first, second = (tune(one, tmp_path / str(one.class_weights))[0]["train_loss"] for one in given)
    assert first != second


def test_decoders_classify_too(llama, bert, tmp_path):
    given = TuningRequest(
        str(llama),
        bert / "train.jsonl",
        bert / "eval.jsonl",
        method=Method("lora"),
        training=SHORT,
    )
    (found,) = tune(given, tmp_path)
    answers = load_tuned(tmp_path).predict(["the cat", "a dog"])
    assert found["learning_rate"] == 4e-3  # twice the default: their classifier starts in closed form too
    assert {answer.label for answer in answers} <= {"cat", "dog"}


def numbered(path, count, seed):
    """Rows whose number is large where the text is of a cat."""
    rows = [json.loads(line) for line in write_rows(path, count, seed=seed).read_text().splitlines()]
    values = [{"text": row["text"], "label": 500.0 + 100.0 * (row["label"] == "cat")} for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in values))
    return path


@pytest.mark.parametrize("method", ["ntk", "lora", "probe"])
def test_regression_predicts_numbers_in_the_units_of_the_file(bert, tmp_path, method):
    files = [numbered(tmp_path / f"{n}.jsonl", 48, n) for n in range(2)]
    given = TuningRequest(
        str(bert),
        *files,
        task="regression",
        method=Method(method),
        training=TrainingSettings(epochs=4, batch=8),
    )
    (found,) = tune(given, tmp_path / "out")
    answers = load_tuned(tmp_path / "out").predict(
        [json.loads(line)["text"] for line in files[1].read_text().splitlines()]
    )
    values = [json.loads(line)["label"] for line in files[1].read_text().splitlines()]
    errors = [answer.value - value for answer, value in zip(answers, values, strict=True)]
    assert (sum(e * e for e in errors) / len(errors)) ** 0.5 == pytest.approx(found["eval_rmse"], rel=1e-4)
    assert found["eval_r2"] > 0.3
    assert found["eval_rmse"] < 50


def test_regression_has_no_classes_to_weigh(bert):
    with pytest.raises(AttangentError, match="class_weights has no effect on regression"):
        tuning(bert, task="regression", class_weights=True)


@pytest.mark.parametrize("task", ["classification", "regression", "causal-lm"])
def test_too_few_rows_to_keep_some_are_refused_before_the_model_is_loaded(tmp_path, monkeypatch, task):
    monkeypatch.setattr("attangent.tuning.prepared.load_tokenizer", None)
    rows = [{"text": "a", "label": 1}, {"text": "b", "label": 2}][: 2 if task == "classification" else 1]
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(AttangentError, match=r"one row per label.*--eval"):
        prepare(TuningRequest("nothing", path, task=task))


def test_one_row_for_each_label_trains_with_rows_to_score_on(bert, tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": one, "label": one}) + "\n" for one in ("cat", "dog")))
    given = {"train": path, "evaluate": path}
    (found,) = tune(tuning(bert, **given), tmp_path / "run")
    assert found["steps"] == 1


def test_old_names_still_work_with_a_warning():
    with pytest.warns(FutureWarning, match="attangent.tuning.tune"):
        from attangent.tuning.finetune import finetune
    with pytest.warns(FutureWarning, match="TuningRequest"):
        from attangent.tuning.finetune import Tuning
    with pytest.warns(FutureWarning, match="TrainingSettings"):
        from attangent.tuning.training import Training
    with pytest.warns(FutureWarning, match="TunedModel"):
        from attangent.tuning.folders.tuned import Tuned
    assert (finetune, Tuning, Training, Tuned) == (tune, TuningRequest, TrainingSettings, TunedModel)
