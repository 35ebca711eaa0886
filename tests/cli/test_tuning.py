"""The commands tune and predict, as a user types them."""

import csv
import json
import re
from typing import get_args

import pytest
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli import tuning
from attangent.cli.commands import app
from attangent.tuning import request
from attangent.tuning.methods.registry import TECHNIQUES
from tests.adapters.tiny import save_bert, save_llama, save_vit, write_images, write_rows

RUNNER = CliRunner()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = save_bert(tmp_path_factory.mktemp("bert"))
    write_rows(made / "train.jsonl", 24)
    write_rows(made / "eval.jsonl", 12, seed=1)
    return made


def run(*arguments):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


def files(folder):
    return ("--model", folder, "--train", folder / "train.jsonl", "--eval", folder / "eval.jsonl")


def test_tune_says_what_it_found_and_where_it_is(folder, tmp_path):
    (tmp_path / "c.toml").write_text("[method.ntk]\nsize = 5\n[training]\nbatch = 12\n")
    options = (
        "--epochs",
        1,
        "--seeds",
        2,
        "--config",
        tmp_path / "c.toml",
        "--out",
        tmp_path / "out",
    )
    done = run("tune", *files(folder), *options)
    assert done.exit_code == 0, done.output
    assert "seed 1: trained on 24 rows, scored on 12: loss" in done.output
    assert "accuracy: 95 % interval" in done.output
    assert re.search(
        r"logistic regression on the frozen model \(\d+ s\): accuracy \S+; training gained", done.output
    )
    assert re.search(
        r"^24 rows, texts from the column text, classes: \S+ \(\d+ rows\), \S+ \(\d+ rows\)$",
        done.output,
        re.M,
    )
    assert re.search(r"^  (wrong rows \(\d+\): \S+wrong.csv; )?confusion matrix: \S+", done.output, re.M)
    assert "the saved model was trained on all" not in done.output
    assert "over 2 seeds" in done.output
    settings = json.loads((tmp_path / "out/seed-1/settings.json").read_text())
    assert settings["method"]["ntk"]["size"] == 5
    assert (settings["training"]["batch"], settings["training"]["epochs"]) == (12, 1)
    again = run("tune", *files(folder), *options, "--json")
    assert [found["seed"] for found in json.loads(again.stdout)] == [0, 1]


def test_the_method_is_said_where_none_is_named(folder, tmp_path):
    short = ("--epochs", 1, "--max-tokens", 3)
    done = run("tune", *files(folder), *short, "--out", tmp_path / "a")
    assert done.output.startswith("method: lora; "), done.output
    named = run("tune", *files(folder), *short, "--method", "lora", "--out", tmp_path / "b")
    assert "method:" not in named.output
    assert "method:" not in run("tune", *files(folder), *short, "--quiet", "--out", tmp_path / "c").output


def test_images_are_tuned_with_lora_unless_a_state_is_set_up(tmp_path):
    model = save_vit(tmp_path / "vit")
    images = write_images(tmp_path / "images", 4, 0)
    (tmp_path / "c.toml").write_text("[method.ntk]\nsize = 4\n")
    given = ("tune", "--model", model, "--train", images, "--epochs", 1)
    done = run(*given, "--out", tmp_path / "a")
    assert done.output.startswith("method: lora; "), done.output
    saved = json.loads((tmp_path / "a/seed-0/adapter/adapter_config.json").read_text())
    assert saved["use_rslora"] is True
    state = run(*given, "--config", tmp_path / "c.toml", "--out", tmp_path / "b")
    assert "ntk: accuracy" in state.output, state.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--task", "chess"), "'chess' is not one of 'classification'"),
        (("--start", "random"), "No such option"),
        (("--validation", "random"), "No such option"),
    ],
)
def test_unknown_choices_are_usage_errors(folder, tmp_path, arguments, message):
    done = run("tune", *files(folder), "--out", tmp_path / "out", *arguments)
    assert done.exit_code == 2
    assert message in " ".join(re.sub(r"[│╭╮╰╯─]", " ", done.output).split())


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("[plan]\n", "unknown settings plan"),
        ('pooling = "mean"\n', "unknown settings pooling"),
        ("[training]\nepoch = 1\n", "unknown settings epoch"),
        ("[method]\nrank = 0\n", "rank is 0"),
    ],
)
def test_config_files_that_are_rejected(folder, tmp_path, content, message):
    (tmp_path / "c.toml").write_text(content)
    done = run("tune", *files(folder), "--out", tmp_path / "out", "--config", tmp_path / "c.toml")
    assert isinstance(done.exception, AttangentError)
    assert message in str(done.exception)


def test_an_unknown_method_is_named_with_those_there_are(folder, tmp_path):
    done = run("tune", *files(folder), "--out", tmp_path / "out", "--method", "magic")
    assert str(done.exception).startswith("method is 'magic', expected one of ntk, lora")


def test_a_missing_config_file_is_named(folder, tmp_path):
    done = run("tune", *files(folder), "--out", tmp_path / "out", "--config", "none.toml")
    assert "there is no file none.toml" in str(done.exception)


def test_the_choices_are_those_of_the_tool():
    assert set(get_args(tuning.MethodName)) == set(TECHNIQUES)
    assert tuning.Task == request.Task


def test_predict_answers_rows_and_lines(folder, tmp_path):
    (tmp_path / "rows.csv").write_text("id,message,intent\n" + "1,the old cat,cat\n2,a dog runs,dog\n" * 6)
    columns = ("--text-column", "message", "--label-column", "intent")
    tuned = run(
        "tune", "--model", folder, "--train", tmp_path / "rows.csv", "--out", tmp_path / "out", *columns
    )
    assert tuned.exit_code == 0, tuned.output
    assert "the saved model was trained on all 12 rows (--keep-holdout prevents it)" in tuned.output
    assert "2 scored rows are also among the training rows" in tuned.output
    (tmp_path / "new.tsv").write_text("message\tid\nthe old cat\tx\na dog runs\ty\n")
    asked = ("predict", "--adapter", tmp_path / "out", tmp_path / "new.tsv")
    done = run(*asked, "--out", tmp_path / "answers.csv")
    assert "2 predictions in" in done.output
    lines = (tmp_path / "answers.csv").read_text().splitlines()
    assert lines[0] == "row,id,message,label,probability,probability_cat,probability_dog"
    assert [line.split(",")[:4] for line in lines[1:]] == [
        ["1", "x", "the old cat", "cat"],
        ["2", "y", "a dog runs", "dog"],
    ]
    assert run(*asked).output == "\n".join(lines) + "\n"
    typed = RUNNER.invoke(app, ["predict", "--adapter", str(tmp_path / "out")], input="the old cat\n\n")
    assert typed.output.splitlines()[0] == "row,text,label,probability,probability_cat,probability_dog"
    assert typed.output.splitlines()[1].replace("1,", "1,x,", 1) == lines[1]
    assert "there is no" in str(run(*asked[:3], tmp_path / "none.csv").exception)


def test_generate_goes_on_as_it_was_tuned(tmp_path):
    model = save_llama(tmp_path / "llama")
    (tmp_path / "t.jsonl").write_text('{"prompt": "the cat", "completion": "sleeps"}\n' * 8)
    common = ("--model", model, "--train", tmp_path / "t.jsonl", "--task", "causal-lm")
    tuned = run("tune", *common, "--epochs", 20, "--learning-rate", 0.1, "--out", tmp_path / "out")
    assert tuned.exit_code == 0
    assert "over 1 seed;" in tuned.output
    assert f"next: attangent generate TEXT --adapter {tmp_path}" in tuned.output
    assert "exact_match 1.00" in tuned.output
    assert "8 rows to complete\n" in tuned.output
    assert "'the cat' -> 'sleeps'" in tuned.output
    assert f"  all answers: {tmp_path / 'out/seed-0/samples.csv'}\n" in tuned.output
    assert "elsewhere: perplexity of texts that the base model wrote x" in tuned.output
    asked = ("generate", "the cat", "--adapter", tmp_path / "out", "--tokens", 1)
    done = run(*asked)
    assert (done.exit_code, done.output) == (0, "sleeps\n")
    refused = run("predict", "--adapter", tmp_path / "out", tmp_path / "t.jsonl")
    assert "generates text" in str(refused.exception)
    chat = ["chat", "--adapter", str(tmp_path / "out"), "--tokens", "1"]
    talked = RUNNER.invoke(app, chat, input="the cat\n\n")
    assert (talked.exit_code, len(talked.output.splitlines())) == (0, 1)
    assert "--budget" in str(RUNNER.invoke(app, [*chat, "--budget", "200"]).exception)


def test_a_missing_folder_is_named_before_its_model(tmp_path):
    done = run("generate", "the cat", "--adapter", tmp_path / "none")
    assert "there is no" in str(done.exception)
    assert "--model is missing" in str(run("generate", "the cat", "--adapter", tmp_path).exception)


def test_regression_from_the_command_line(folder, tmp_path):
    rows = [f"the cat {n},{n}.5\n" for n in range(12)]
    (tmp_path / "rows.csv").write_text("text,price\n" + "".join(rows))
    common = ("--model", folder, "--train", tmp_path / "rows.csv", "--label-column", "price")
    done = run("tune", *common, "--task", "regression", "--method", "probe", "--out", tmp_path / "out")
    assert done.exit_code == 0, done.output
    assert "12 rows, texts from the column text, numbers from 0.5 to 11.5 in price\n" in done.output
    assert "predicted numbers, the worst first: " in done.output
    assert "probe: rmse" in done.output
    answers = run("predict", "--adapter", tmp_path / "out", tmp_path / "rows.csv").output.splitlines()
    assert answers[0] == "row,price,text,value"
    assert len(answers) == 13
    (tmp_path / "odd.csv").write_text("text,price\nthe cat,cheap\n")
    refused = run(
        *("tune", "--model", folder, "--train", tmp_path / "odd.csv", "--label-column", "price"),
        "--task",
        "regression",
        "--out",
        tmp_path / "other",
    )
    assert "row 1: the column 'price' holds 'cheap', expected a number" in str(refused.exception)
    assert refused.output == ""
    assert not (tmp_path / "other").exists()


def test_answers_to_images_name_the_files(tmp_path):
    model = save_vit(tmp_path / "vit")
    images = write_images(tmp_path / "images", 2, 0)
    given = ("--model", model, "--train", images, "--eval", images, "--method", "probe", "--quiet")
    assert run("tune", *given, "--out", tmp_path / "out").exit_code == 0
    files = sorted(path for path in images.rglob("*.png"))
    many = run("predict", images, "--adapter", tmp_path / "out").output.splitlines()
    one = run("predict", files[0], "--adapter", tmp_path / "out").output.splitlines()
    assert many[0].startswith("file,label,probability,")
    assert [line.split(",")[0] for line in many[1:]] == [str(path) for path in files]
    assert one == many[:2]


def test_a_tuned_model_is_exported_to_transformers_only(folder, tmp_path):
    given = ("--epochs", 1, "--method", "lora", "--keep-holdout", "--quiet")
    assert (
        run("tune", "--model", folder, "--train", folder / "train.jsonl", *given, "--out", tmp_path).exit_code
        == 0
    )
    done = run("export", tmp_path, "--to", "transformers")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "transformers/model.safetensors").is_file()
    refused = run("export", tmp_path, "--to", "vllm")
    assert "holds a tuned model; export it to transformers or sentence-transformers" in str(refused.exception)
    odd = run("export", tmp_path, "--to", "transformers", "--out", tmp_path / "x", "--name", "y")
    assert "--name, --server and --slots are for compressed prompts" in str(odd.exception)


def test_predict_copies_the_columns_that_it_does_not_write(folder, tmp_path):
    common = ("--method", "probe", "--quiet", "--out", tmp_path / "out")
    assert run("tune", "--model", folder, "--train", folder / "train.jsonl", *common).exit_code == 0
    label = json.loads(next((tmp_path / "out").rglob("tuned.json")).read_text())["labels"][0]
    header = f"ticket_id,row,text,label,note,probability,my id,probability_{label}"
    (tmp_path / "new.csv").write_text(f"{header}\nT-1,9,the old cat,1,=2,x,a,y\nT-2,9,a dog runs,0,,x,b,y\n")
    done = run("predict", "--adapter", tmp_path / "out", tmp_path / "new.csv")
    names, *rows = csv.reader(done.output.splitlines())
    own = [name for name in names if name.startswith("probability_")]
    assert names == ["row", "ticket_id", "note", "my_id", "text", "label", "probability", *own]
    assert own.count(f"probability_{label}") == 1
    assert [row[:5] for row in rows] == [
        ["1", "T-1", "'=2", "a", "the old cat"],
        ["2", "T-2", "", "b", "a dog runs"],
    ]
    (tmp_path / "new.jsonl").write_text('{"text": "a dog", "size": 3}\n{"text": "a cat", "ref": null}\n')
    done = run("predict", "--adapter", tmp_path / "out", tmp_path / "new.jsonl")
    lines = done.output.splitlines()
    assert lines[0].startswith("row,size,ref,text,label")
    assert lines[1].startswith("1,3,,a dog,")
    assert lines[2].startswith("2,,,a cat,")


def test_no_bar_is_shown_while_weights_are_written(folder, tmp_path, capfd):
    from transformers.utils import logging

    logging.enable_progress_bar()
    common = ("--model", folder, "--train", folder / "train.jsonl", "--epochs", 1)
    assert run("tune", *common, "--method", "full", "--out", tmp_path / "full").exit_code == 0
    done = run("export", tmp_path / "full", "--to", "transformers", "--out", tmp_path / "plain")
    assert done.exit_code == 0, done.output
    assert "shards" not in done.stderr + capfd.readouterr().err
    assert logging.is_progress_bar_enabled()


@pytest.mark.parametrize(
    ("accuracy", "words"), [(1.0, "both are right on all 33 rows"), (31 / 33, "on the same 31 of 33 rows")]
)
def test_equal_results_are_said_in_words(accuracy, words):
    metrics = {"method": "lora", "rows_scored": 33, "closed_form_accuracy": accuracy, "gain": 0.0}
    line = tuning._gain(metrics | {"gain_error": 0.0, "closed_form_seconds": 2.0})
    assert words in line
    assert "±" not in line
    mixed = tuning._gain(metrics | {"gain_error": 0.04, "closed_form_seconds": 2.0})
    assert "(+0.0 ± 4.0 points)" in mixed


@pytest.mark.parametrize(
    ("content", "message"),
    [("text,kind\na cat,x\n", "did you mean"), ("text,label\na cat,x\n", "at least two labels")],
)
def test_rows_are_checked_before_anything_is_printed_or_loaded(tmp_path, content, message):
    (tmp_path / "rows.csv").write_text(content.replace("kind", "lable"))
    common = ("--model", tmp_path / "no-model", "--out", tmp_path / "out")
    done = run("tune", *common, "--train", tmp_path / "rows.csv")
    assert message in str(done.exception)
    assert done.output == ""
    missing = run("tune", *common, "--train", tmp_path / "none.csv")
    assert "there is no" in str(missing.exception)
    assert missing.output == ""


def test_help_words_defaults_without_parentheses():
    text = run("tune", "--help").output
    assert "[default: lora]" in text
    assert "[default: (" not in text


@pytest.mark.parametrize(
    ("name", "value", "rows", "text"),
    [
        ("eval_loss", 0.2445, 20, "0.24"),
        ("eval_accuracy", 0.95, 20, "0.95"),
        ("eval_accuracy", 0.9125, 80, "0.91"),
        ("eval_accuracy", 0.912, 500, "0.912"),
        ("eval_accuracy", 0.91234, 5000, "0.9123"),
        ("eval_rmse", 1234.5, 20, "1234"),
        ("eval_loss", 0.00345, 20, "0.0034"),
        ("eval_loss", 0.0, 20, "0.00"),
        ("eval_r2", float("nan"), 1, "nan"),
    ],
)
def test_scores_have_the_digits_that_the_rows_support(name, value, rows, text):
    assert tuning._score(name, value, rows) == text
