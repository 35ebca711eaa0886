"""One run on transformers' Trainer: its numbers, its checkpoints, resuming, several processes."""

import copy
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from unittest import mock

import pytest
import torch

from attangent import AttangentError
from attangent.tuning import TrainingSettings, TuningRequest, completions, tune
from attangent.tuning import trainer as trainer_module
from attangent.tuning.data.text import read_task
from attangent.tuning.encoding import Padding, encode_task
from attangent.tuning.loading import load_model, load_tokenizer
from attangent.tuning.methods import Method, adapt
from attangent.tuning.prepared import PreparedTask
from attangent.tuning.running import start_method
from attangent.tuning.trainer import make_trainer, optimiser, put_tensors, trained_tensors
from attangent.tuning.training import outputs_of, score, train
from tests.adapters.tiny import save_bert, save_llama, write_rows

PAD = Padding(0)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = save_bert(tmp_path_factory.mktemp("bert"))
    task = read_task(write_rows(folder / "rows.jsonl", 64))
    rows = encode_task(task, load_tokenizer(folder), 8)
    return load_model(folder, "classification", task.labels), rows


def task(data, name="ntk"):
    model, rows = data
    adapted = adapt(copy.deepcopy(model), Method(name), "classification", 0, [PAD(rows[:16])])
    return PreparedTask(adapted, "classification", rows[:48], PAD)


def trainer_of(data, folder, name="ntk", rate=0.03, **settings):
    return make_trainer(task(data, name), rate, TrainingSettings(**{"batch": 8, **settings}), folder)


@pytest.mark.parametrize(("name", "rate"), [("ntk", 0.03), ("lora", 0.01), ("full", 3e-3)])
def test_what_can_be_learnt_is_learnt(data, tmp_path, name, rate):
    trainer = trainer_of(data, tmp_path, name, rate, epochs=6)
    numbers = train(trainer)
    found = score(trainer, data[1][48:], "classification")
    assert found["accuracy"] >= 0.8
    assert numbers["steps"] == 36
    assert numbers["peak_megabytes"] > 50
    assert numbers["head_parameters"] == 66


def test_outputs_of_rows_are_what_one_row_alone_gets(data, tmp_path):
    rows = data[1]
    trainer = trainer_of(data, tmp_path)
    found = outputs_of(trainer, rows[48:])
    losses = torch.nn.functional.cross_entropy(
        found, torch.tensor([row["labels"] for row in rows[48:]]), reduction="none"
    )
    for row, loss in zip(rows[48:], losses.tolist(), strict=True):
        assert loss == pytest.approx(score(trainer, [row], "classification")["loss"], abs=1e-5)


def test_the_head_has_a_rate_of_its_own(data):
    groups = optimiser(task(data).model, 0.03, TrainingSettings(head_rate=0.004)).param_groups
    assert [group["lr"] for group in groups] == [0.03, 0.004]
    (alone,) = optimiser(task(data, "head").model, 0.03, TrainingSettings(head_rate=0.004)).param_groups
    assert alone["lr"] == 0.03


@pytest.mark.parametrize(("start", "rate"), [("closed-form", 1e-3), ("random", 5e-3)])
def test_a_head_in_closed_form_takes_a_fifth_of_its_rate(data, start, rate):
    model, rows = data
    plain = PreparedTask(copy.deepcopy(model), "classification", rows[:48], PAD)
    started = start_method(plain, Method("lora"), TrainingSettings(), start)
    groups = optimiser(started.task.model, 0.03, started.training).param_groups
    assert [group["lr"] for group in groups] == pytest.approx([0.03, rate])


def test_a_head_without_closed_form_keeps_its_rate(data):
    model, rows = data
    plain = PreparedTask(copy.deepcopy(model), "classification", rows[:48], PAD)
    started = start_method(plain, Method("ntk+lora"), TrainingSettings(), "random")
    scale = Method("ntk+lora").technique.rate_scale
    assert started.training.head_rate == TrainingSettings().head_rate
    assert (scale("classifier.weight"), scale("lora_A.weight")) == (1.0, 0.2)


def test_accumulation_is_the_same_as_a_larger_batch(data, tmp_path):
    ends = []
    for batch, accumulate in ((8, 1), (4, 2)):
        trainer = trainer_of(data, tmp_path / str(batch), epochs=2, batch=batch, accumulate=accumulate)
        train(trainer)
        ends.append(trained_tensors(trainer.model))
    for name, tensor in ends[0].items():
        torch.testing.assert_close(ends[1][name], tensor, rtol=1e-3, atol=1e-5)


def test_batches_by_length_train_on_every_example(data, tmp_path):
    trainer = trainer_of(data, tmp_path, epochs=2, by_length=True)
    assert train(trainer)["steps"] == 2 * 6
    sampler = trainer._get_train_sampler()
    assert (sampler.group, len(sampler.lengths)) == (8, 48)


def test_a_checkpoint_holds_what_trains_and_nothing_else(data, tmp_path):
    train(trainer_of(data, tmp_path, epochs=1, checkpoint_steps=3))
    files = {path.name for path in (tmp_path / "checkpoint-3").iterdir()}
    assert "trained.safetensors" in files
    assert "model.safetensors" not in files
    assert (tmp_path / "checkpoint-3/trained.safetensors").stat().st_size < 100_000


class Killed(Exception):
    pass


@pytest.mark.parametrize("every", [5, 0])
def test_a_killed_run_resumes_to_the_same_weights(data, tmp_path, monkeypatch, every):
    """Also without a word about checkpoints: here one is due with every step."""
    for pause in ("EVERY_SECONDS", "LEAST_SHARE"):
        monkeypatch.setattr(trainer_module, pause, 0.0)
    whole = trainer_of(data, tmp_path / "whole", checkpoint_steps=every)
    expected = train(whole)
    trainer = trainer_of(data, tmp_path / "cut", checkpoint_steps=every)
    step = trainer.training_step

    def fails(*arguments, **named):
        if trainer.state.global_step == 13:
            raise Killed
        return step(*arguments, **named)

    trainer.training_step = fails
    with pytest.raises(Killed):
        trainer.train()
    kept = sorted((tmp_path / "cut").iterdir(), key=lambda path: int(path.name.partition("-")[2]))
    assert len(kept) == 2
    assert every == 0 or [path.name for path in kept] == ["checkpoint-5", "checkpoint-10"]
    (kept[1] / "trainer_state.json").unlink()  # as a kill while it was written leaves it
    resumed = trainer_of(data, tmp_path / "cut", checkpoint_steps=every)
    numbers = train(resumed)
    assert numbers["steps"] == 24
    assert numbers["train_loss"] == expected["train_loss"]
    ends = trained_tensors(whole.model), trained_tensors(resumed.model)
    assert set(ends[0]) == set(ends[1])
    for name, tensor in ends[0].items():
        assert torch.equal(ends[1][name], tensor), name


def test_the_order_hears_of_the_epoch_in_which_a_run_goes_on(data, tmp_path):
    """Loaders that skip batches of several processes do not pass it on."""
    trainer = trainer_of(data, tmp_path)
    trainer.get_train_dataloader()
    trainer.state.epoch = 1.67
    trainer.callback_handler.on_epoch_begin(trainer.args, trainer.state, trainer.control)
    assert trainer.orders[-1].epoch == 1


def test_a_checkpoint_of_another_method_is_refused(data):
    ntk, lora = task(data), task(data, "lora")
    with pytest.raises(AttangentError, match="the checkpoint and the model differ in"):
        put_tensors(lora.model, trained_tensors(ntk.model))


def test_a_loss_that_is_no_number_is_said(data, tmp_path):
    trainer = trainer_of(data, tmp_path, "full", rate=1e30, epochs=1)
    with pytest.raises(AttangentError, match="use a smaller learning rate"):
        train(trainer)


def test_bf16_trains(data, tmp_path):
    assert 0 < train(trainer_of(data, tmp_path, epochs=1, batch=16, bf16=True))["train_loss"] < 2


@pytest.mark.parametrize(
    "settings",
    [
        {"epochs": 0},
        {"batch": 0},
        {"accumulate": 0},
        {"head_rate": 0.0},
        {"warmup": 1.0},
        {"checkpoint_steps": -1},
    ],
)
def test_settings_that_are_refused(settings):
    with pytest.raises(AttangentError):
        TrainingSettings(**settings)


PROCESSES = """
import atexit, os, socket, sys
from pathlib import Path
import accelerate, peft
from torch import distributed
from transformers import Trainer
from tests.tuning.test_training import tune_tiny

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1]), "WORLD_SIZE": "2"}
children = []
for rank in range(2):
    children.append(os.fork())
    if not children[-1]:
        break
else:
    sys.exit(any([os.waitpid(child, 0)[1] for child in children]))
os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank)}

def note_end():
    threads = [path.read_text() for path in Path("/proc/self/task").glob("*/comm")]
    left = distributed.is_initialized() or any("gloo" in name for name in threads)
    end = f"written {written}, group left {left}"
    Path(sys.argv[1], f"end-{os.environ['RANK']}").write_text(end)

written = []
atexit.register(note_end)
for task in sys.argv[2:]:
    out = Path(sys.argv[1], task)
    tune_tiny(out / "model", out / "two", task, 4)
    written.append((out / "two/seed-0/metrics.json").is_file())
"""


def tune_tiny(folder, out, task, batch):
    torch.set_num_threads(1)
    rows = Path(folder) / "rows.jsonl"
    training = TrainingSettings(epochs=2, batch=batch)
    request = TuningRequest(str(folder), rows, rows, task, method=Method("ntk"), training=training)
    with mock.patch.object(completions, "_TEXT_TOKENS", 8):
        tune(request, Path(out))


def test_two_processes_reach_the_loss_of_one(tmp_path):
    """As torchrun starts them, but forked from one process, because imports take longest."""
    tasks = {"classification": save_bert, "causal-lm": save_llama}
    for task, save in tasks.items():
        folder = save(tmp_path / task / "model")
        write_rows(folder / "rows.jsonl", 24)
        tune_tiny(folder, tmp_path / task / "one", task, 8)
    (tmp_path / "run.py").write_text(PROCESSES)
    command = [sys.executable, tmp_path / "run.py", tmp_path, *tasks]
    root = str(Path(__file__).parents[2])
    path = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": path}
    done = subprocess.run([*map(str, command)], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr[-2000:]
    for rank in range(2):
        assert (tmp_path / f"end-{rank}").read_text() == "written [True, True], group left False"
    for task in tasks:
        one, two = (
            json.loads((tmp_path / task / n / "seed-0/metrics.json").read_text()) for n in ("one", "two")
        )
        assert one["steps"] == two["steps"] == 6
        assert two["eval_loss"] == pytest.approx(one["eval_loss"], abs=1e-4)
        assert two["train_loss"] == pytest.approx(one["train_loss"], abs=1e-4)


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {name: value}
            for name in ("epochs", "head_rate", "weight_decay")
            for value in (-1.0, math.nan, math.inf)
        ),
        *({"warmup": value} for value in (-0.1, 1.0, math.nan)),
        {"checkpoint_steps": -1},
        {"batch": 0},
    ],
    ids=str,
)
def test_settings_that_no_training_can_follow_are_refused(settings):
    with pytest.raises(AttangentError, match=f"{next(iter(settings))} is .*expected"):
        TrainingSettings(**settings)
