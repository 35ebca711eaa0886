"""The commands compress and generate, as a user types them."""

import contextlib
import io
import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from attangent import AttangentError
from attangent.cli.commands import app
from attangent.cli.compression import GOAL_NOT_MET, _show
from attangent.compression.fidelity import Fidelity
from attangent.compression.prompt import BareReader
from attangent.compression.quiz import Answer
from attangent.compression.report import Report
from attangent.compression.session import ChatSession
from attangent.tuning import Method, TrainingSettings, TuningRequest, load_tuned, tune
from tests.adapters.tiny import save_bert, save_llama, write_rows
from tests.compression.cases import TEMPLATE, tiny_llama

RUNNER = CliRunner()
IMAGE = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "a.png"}}]}
TEXT = "the keeper of the tower is old and the light of the tower is green and so on and on " * 3


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny model saved with a tokenizer of words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    place = tmp_path_factory.mktemp("model")
    words = [
        "[UNK]",
        "</>",
        "<",
        ">",
        "system",
        "user",
        "assistant",
        *sorted(set(TEXT.split())),
        "who",
        "what",
        "?",
    ]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    wrapped = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
    wrapped.chat_template = TEMPLATE
    wrapped.save_pretrained(place)
    tiny_llama(layers=2).save_pretrained(place)
    return place


@pytest.fixture
def prompt(tmp_path):
    path = tmp_path / "prompt.txt"
    path.write_text(TEXT)
    return path


def run(*arguments):
    return RUNNER.invoke(app, [str(argument) for argument in arguments])


def test_compress_writes_an_adapter_and_a_report_and_generate_uses_it(folder, prompt, tmp_path):
    ask, out = tmp_path / "questions.txt", tmp_path / "adapter"
    ask.write_text("who is the keeper?\n\nwhat is the light?\tgreen\n")
    done = run(
        "compress",
        "--model",
        folder,
        "--prompt",
        prompt,
        "--size",
        12,
        "--ask",
        ask,
        "--out",
        out,
        "--distill",
        2,
        "--keep",
        0,
    )
    assert done.exit_code == 0, done.output
    for part in (
        "full prompt",
        "effect of the prompt",
        "who is the keeper?",
        "adapter:",
    ):
        assert part in done.output
    report = json.loads((out / "report.json").read_text())
    assert report["size"] == 12
    assert report["ratio"] >= 0
    assert set(report["decode"]) in (set(), {"full", "compressed", "none"})  # empty if not steady
    assert [answer["expected"] for answer in report["answers"]] == [None, "green"]
    notes = json.loads((out / "compressed_prompt.json").read_text())
    assert notes["roles"] == ["system"]
    assert notes["distilled"] == 2
    assert "facts kept" in done.output.splitlines()[0]
    assert [line for line in done.output.splitlines() if line != line.rstrip()] == []
    assert not (out / ".work").exists()
    one, same = (
        run("generate", "--model", folder, "--adapter", out, "--tokens", 5, "who is the keeper?")
        for _ in range(2)
    )
    assert one.exit_code == 0, one.output
    assert one.output == same.output
    drawn = run("generate", "--model", folder, "--adapter", out, "--temperature", 2, "--seed", 1, "who?")
    assert drawn.exit_code == 0, drawn.output


def shown(report, json_=False, quiet=False):
    """What a terminal shows of both streams."""
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen), contextlib.redirect_stderr(screen):
        _show(report, "model", Path("out"), json_, quiet)
    return screen.getvalue().splitlines()


def test_the_warning_of_few_facts_stands_below_the_facts():
    sizes = dict.fromkeys(("full", "compressed", "none"), 1.0)
    measured = Fidelity({"compressed": 0.8, "none": 1.0}, sizes, sizes)
    own = (Answer("Who?", "Quill", "Quill", "nobody", "Quill"),)
    report = Report(100, 8, "recall", measured, {}, 1000, 80, own=own, candidates=31)
    lines = shown(report)
    assert lines[0].startswith("facts kept: 1 of 1")
    assert lines[1].startswith("warning: only 1 fact counts (the model answers 1 of 31 questions")
    assert lines[-2].startswith("next: ")
    assert lines[-1].startswith("warning: only 20% of the prompt's effect")
    assert len(shown(report, quiet=True)) == 2
    assert shown(report, json_=True)[-2:] == [lines[1], lines[-1]]


def test_json_and_quiet(folder, prompt, tmp_path):
    done = run(
        *("compress", "--model", folder, "--prompt", prompt, "--plain", "--size", 12),
        *("--out", tmp_path / "a", "--method", "plain", "--json", "--keep", 0),
    )
    start = done.stdout.index("{")
    report = json.loads(done.stdout[start : done.stdout.rindex("}") + 1])
    assert report["method"] == "plain"
    assert json.loads((tmp_path / "a" / "compressed_prompt.json").read_text())["roles"] == []
    quiet = run(
        *(
            "compress",
            "--model",
            folder,
            "--prompt",
            prompt,
            "--size",
            400,
            "--keep",
            0,
            "--out",
            tmp_path / "b",
            "--quiet",
        )
    )
    assert quiet.exit_code == 0
    assert quiet.stdout == ""
    assert json.loads((tmp_path / "b" / "compressed_prompt.json").read_text())["exact"] is True


def test_chat_messages_from_json_and_own_calibration(folder, tmp_path):
    chat, text = tmp_path / "chat.json", tmp_path / "text.txt"
    chat.write_text(
        json.dumps([{"role": "system", "content": TEXT}, {"role": "user", "content": "who is old?"}])
    )
    text.write_text("the light is green\nwho is the keeper of the light?\n")
    done = run(
        *("compress", "--model", folder, "--prompt", chat, "--size", 12, "--calibration", text),
        *("--out", tmp_path / "a", "--quiet", "--keep", 0),
    )
    assert done.exit_code == 0, done.output
    assert json.loads((tmp_path / "a" / "compressed_prompt.json").read_text())["roles"] == ["system", "user"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"--model": "nowhere"}, "nowhere"),
        ({"--prompt": "nowhere.txt"}, "cannot read"),
        ({"--size": "3"}, "always kept"),
        ({"--out": "nowhere/deep/adapter"}, "there is no folder"),
        ({"--ask": "nowhere.txt"}, "cannot read"),
        ({"--keep": "2"}, "keep is 2"),
        ({"--seconds": "0"}, "seconds is 0"),
        ({"--distill": "-1"}, "distill is -1"),
    ],
)
def test_what_cannot_be_used_is_refused(folder, prompt, tmp_path, changes, message, monkeypatch):
    monkeypatch.chdir(tmp_path)
    usual = {"--model": folder, "--prompt": prompt, "--out": tmp_path / "adapter"} | changes
    done = run("compress", *(part for pair in usual.items() for part in pair))
    assert isinstance(done.exception, AttangentError)
    assert message in str(done.exception)
    assert not (tmp_path / "adapter").exists()


def test_empty_prompts_and_broken_json_are_refused(folder, tmp_path):
    for name, content, message in (
        ("a.txt", " ", "prompt is empty"),
        ("b.json", "{", "is not JSON"),
        ("deep.json", "[" * 100_000, "is not JSON"),
        ("digits.json", f"[{'1' * 5000}]", "is not JSON"),
        ("three.json", "3", "text or chat messages"),
        ("image.json", json.dumps([IMAGE]), "message 1 of the prompt has a part of type 'image_url'"),
    ):
        (tmp_path / name).write_text(content)
        done = run(
            "compress", "--model", folder, "--prompt", tmp_path / name, "--plain", "--out", tmp_path / "o"
        )
        assert isinstance(done.exception, AttangentError)
        assert message in str(done.exception)


@pytest.mark.parametrize("content", [" \n\t\n", "[" * 100_000])
def test_a_prompt_is_checked_before_the_model_is_loaded(tmp_path, content):
    (tmp_path / "p.json").write_text(content)
    done = run("compress", "--model", "none", "--prompt", tmp_path / "p.json", "--out", tmp_path / "o")
    assert isinstance(done.exception, AttangentError)
    assert "p.json" in str(done.exception)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("p.txt", "Caf\u00e9 ".encode("latin-1") * 20, "it is not UTF-8"),
        ("p.md", b"\xff\xfe\x00", "it is not UTF-8"),
    ],
)
def test_a_prompt_in_a_foreign_encoding_is_refused(folder, tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    done = run("compress", "--model", folder, "--prompt", tmp_path / name, "--out", tmp_path / "o")
    assert message in str(done.exception)


def test_questions_without_text_and_unknown_exports_are_refused(folder, prompt, tmp_path):
    (tmp_path / "ask.txt").write_text("\tgreen\n")
    usual = ("compress", "--model", folder, "--prompt", prompt, "--out", tmp_path / "o")
    assert "a line without a question" in str(run(*usual, "--ask", tmp_path / "ask.txt").exception)
    done = run(*usual, "--export", "gguf")
    assert done.exit_code == 2
    assert "'gguf' is not" in done.output
    assert "method is 'magic', expected one of recall, plain" in str(
        run(*usual, "--method", "magic").exception
    )
    assert not (tmp_path / "o").exists()


def test_an_encoder_is_refused(folder, prompt, tmp_path):
    from transformers import BertConfig, BertModel

    sizes = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 4, "intermediate_size": 48}
    BertModel(BertConfig(vocab_size=64, **sizes)).save_pretrained(tmp_path / "bert")
    for name in ("tokenizer.json", "tokenizer_config.json"):
        (tmp_path / "bert" / name).write_bytes((folder / name).read_bytes())
    done = run("compress", "--model", tmp_path / "bert", "--prompt", prompt, "--out", tmp_path / "o")
    assert isinstance(done.exception, AttangentError)
    assert "holds no causal language model" in str(done.exception)
    assert "not an encoder" in str(done.exception)
    assert "LOAD REPORT" not in done.output


def test_an_export_for_peft_is_written_beside_the_adapter(folder, prompt, tmp_path):
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    out = tmp_path / "a"
    done = run(
        *("compress", "--model", folder, "--prompt", prompt, "--out", out, "--size", 12, "--keep", 0),
        *("--export", "peft"),
    )
    assert done.exit_code == 0, done.output
    assert "for peft: 12 tokens per head" in done.output
    assert json.loads((out / "report.json").read_text())["exported"]["folder"] == "peft"
    model = PeftModel.from_pretrained(AutoModelForCausalLM.from_pretrained(folder), str(out / "peft"))
    assert model.active_peft_config.num_virtual_tokens == 12


def test_a_second_run_into_the_same_folder_is_refused_while_the_first_writes(folder, prompt, tmp_path):
    from attangent._core.files import only_writer

    (tmp_path / "a").mkdir()
    with only_writer(tmp_path / "a"):
        done = run("compress", "--model", folder, "--prompt", prompt, "--out", tmp_path / "a")
    assert "another compression is writing" in str(done.exception)


def test_chat_answers_line_by_line_until_an_empty_one(folder, prompt, tmp_path):
    out = tmp_path / "a"
    run("compress", "--model", folder, "--prompt", prompt, "--out", out, "--size", 12, "--keep", 0)
    done = RUNNER.invoke(
        app,
        ["chat", "--model", str(folder), "--adapter", str(out), "--tokens", "3"],
        input="who is the keeper?\nwhat is the light?\n\nnever asked\n",
    )
    assert done.exit_code == 0, done.output
    first = run("generate", "--model", folder, "--adapter", out, "--tokens", 3, "who is the keeper?")
    assert done.output.splitlines()[0] == first.output.strip()
    assert len(done.output.splitlines()) == 2


def test_a_prompt_beyond_the_context_is_compressed_in_pieces(folder, tmp_path):
    folder = shutil.copytree(folder, tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 512}))
    (tmp_path / "long.txt").write_text(TEXT * 10)
    done = run(
        *("compress", "--model", folder, "--prompt", tmp_path / "long.txt", "--out", tmp_path / "a"),
        *("--size", 8, "--plain"),
    )
    assert done.exit_code == 0, done.output
    report = json.loads((tmp_path / "a" / "report.json").read_text())
    assert report["pieces"] > 1
    assert report["size"] == 8 * report["pieces"]
    assert run("generate", "--model", folder, "--adapter", tmp_path / "a", "who?").exit_code == 0


def test_generate_refuses_what_compress_did_not_write(folder, tmp_path):
    done = run("generate", "--model", folder, "--adapter", tmp_path, "who?")
    assert "pass a folder that `attangent compress` wrote" in str(done.exception)
    done = run("generate", "--model", folder, "--adapter", tmp_path, "--tokens", 0, "who?")
    assert "tokens is 0" in str(done.exception)


def test_generation_behind_an_exact_prompt_is_that_of_the_prompt_in_the_input(folder, tmp_path):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    (tmp_path / "p.txt").write_text("the keeper is old and the light is green")
    run(
        *("compress", "--model", folder, "--prompt", tmp_path / "p.txt", "--plain", "--size", 50),
        *("--out", tmp_path / "a", "--quiet", "--keep", 0),
    )
    said = run(
        "generate", "--model", folder, "--adapter", tmp_path / "a", "--tokens", 6, "who is the keeper?"
    )
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor(
        [tokenizer("the keeper is old and the light is green who is the keeper?")["input_ids"]]
    )
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=6, do_sample=False, pad_token_id=0
    )
    assert said.output.strip() == tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip()


def test_a_goal_out_of_reach_within_the_cap_has_an_exit_code_of_its_own(folder, prompt, tmp_path):
    out = tmp_path / "a"
    usual = ("compress", "--model", folder, "--prompt", prompt, "--out", out, "--distill", 0)
    done = run(*usual, "--size", 5, "--keep", 1, "--seed", 3)
    assert done.exit_code == GOAL_NOT_MET, done.output
    assert "the goal was not met: the size is limited to 5 tokens per head" in done.output
    report = json.loads((out / "report.json").read_text())
    assert report["goal"]["met"] is False
    assert [attempt["size"] for attempt in report["goal"]["attempts"]] == [5]
    assert (out / "curve.png").read_bytes()[:4] == b"\x89PNG"
    assert run("generate", "--model", folder, "--adapter", out, "--tokens", 2, "who?").exit_code == 0


def test_without_a_cap_no_size_above_a_third_of_the_prompt_is_tried(folder, prompt, tmp_path):
    run(
        *("compress", "--model", folder, "--prompt", prompt, "--out", tmp_path / "a", "--distill", 0),
        *("--keep", 1, "--json"),
    )
    report = json.loads((tmp_path / "a" / "report.json").read_text())
    assert report["prompt_tokens"] >= 3 * max(attempt["size"] for attempt in report["goal"]["attempts"])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["", "--tokens", "3"], "must have words"),
        (["\udcff", "--tokens", "3"], "valid Unicode"),
        (["x", "--tokens", "1000000000"], "at most 100,000"),
        (["x", "--temperature", "-1"], r"temperature is -1\.0"),
        (["x", "--temperature", "nan"], "temperature is nan"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_loaded(words, message):
    done = RUNNER.invoke(app, ["generate", *words, "--model", "no/model", "--adapter", "no"])
    assert re.search(message, str(done.exception))


def test_a_bare_model_generates_and_chats(folder):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    said = run("generate", "--model", folder, "--tokens", 4, "--json", "who is the keeper?")
    assert said.exit_code == 0, said.output
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    ids = torch.tensor([tokenizer("who is the keeper?")["input_ids"]])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=4, do_sample=False)
    expected = tokenizer.decode(out[0, ids.shape[1] :], skip_special_tokens=True).strip()
    assert json.loads(said.output) == {"asked": "who is the keeper?", "answer": expected}
    chat = RUNNER.invoke(
        app, ["chat", "--model", str(folder), "--tokens", "2", "--json"], input="who?\nwhat?\n"
    )
    assert chat.exit_code == 0, chat.output
    assert [json.loads(line)["asked"] for line in chat.output.splitlines()] == ["who?", "what?"]


TUNED_TEMPLATE = "{% for turn in messages %}{{ turn['content'] }} {% endfor %}"


@pytest.fixture(scope="module", params=["ntk", "lora"])
def tuned(tmp_path_factory, request):
    """A tiny model tuned to continue two texts."""
    folder = tmp_path_factory.mktemp("llama")
    save_llama(folder)
    rows = [{"prompt": "the cat", "completion": "sleeps"}, {"prompt": "sleeps dog", "completion": "runs"}] * 8
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    given = TuningRequest(
        str(folder),
        folder / "rows.jsonl",
        folder / "rows.jsonl",
        "causal-lm",
        method=Method(request.param, learning_rate=0.1 if request.param == "ntk" else 0.03),
        training=TrainingSettings(epochs=20, batch=8),
    )
    tune(given, folder / "run")
    return folder / "run"


def test_a_tuned_model_continues_text_and_its_pipeline_writes_the_same(tuned):
    base = str(tuned.parent)
    said = run("generate", "--model", base, "--adapter", tuned, "--tokens", 1, "the cat")
    assert said.output.strip() == "sleeps"
    written = load_tuned(tuned).pipeline()("the cat", max_new_tokens=1, do_sample=False)
    assert written[0]["generated_text"].endswith("sleeps")


def test_a_chat_with_a_tuned_model_remembers_its_turns(tuned):
    base, words = str(tuned.parent), ["--tokens", "1"]
    chat = RUNNER.invoke(app, ["chat", "--model", base, "--adapter", str(tuned), *words], input="the cat\n")
    assert chat.exit_code == 0, chat.output
    loaded = load_tuned(tuned)
    loaded.tokenizer.chat_template = TUNED_TEMPLATE
    session = ChatSession(loaded.model, loaded.tokenizer, reader=BareReader())
    assert session.say("the cat", 1) == "sleeps"
    expected = run("generate", "--model", base, "--adapter", tuned, *words, "the cat sleeps dog")
    assert session.say("dog", 1) == expected.output.strip()


def test_a_classifier_does_not_chat_and_a_tuned_model_has_no_budget(tuned, tmp_path):
    folder = save_bert(tmp_path / "bert")
    rows = write_rows(folder / "rows.jsonl", 8)
    tune(TuningRequest(str(folder), rows, rows, method=Method("probe")), tmp_path / "run")
    for command in (["chat"], ["generate", "the cat"]):  # before the model is loaded
        done = run(*command, "--model", "another", "--adapter", tmp_path / "run")
        assert "tuned for classification; use `attangent predict`" in str(done.exception)
    done = run("chat", "--model", tuned.parent, "--adapter", tuned, "--budget", 100)
    assert "--budget cannot be used with a tuned model" in str(done.exception)
