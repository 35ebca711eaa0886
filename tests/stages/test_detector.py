"""The detector while a run goes on: what it says and when, what it refuses."""

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from attangent import AttangentError
from attangent.stages import StageDetector, find_stages, stage_callback

STEPS = np.arange(150)
NOISE = 0.02 * np.random.default_rng(0).normal(size=150)
FALLS = {
    name: 1 / (1 + np.exp((STEPS - middle) / 3)) + NOISE for name, middle in (("hard", 90), ("easy", 40))
}


def fed(detector, steps=STEPS, **curves):
    events = []
    for place, step in enumerate(steps):
        events += detector.update(step, {name: curve[place] for name, curve in curves.items()})
    return events


@pytest.fixture(scope="module")
def followed():
    """A detector that has seen both falls, and what it said."""
    detector = StageDetector(FALLS)
    return detector, fed(detector, **FALLS)


def test_stages_are_said_once_and_in_order(followed):
    detector, events = followed
    assert [(event.name, event.kind) for event in events] == [
        ("easy", "onset"),
        ("easy", "completion"),
        ("hard", "onset"),
        ("hard", "completion"),
    ]
    for event, at in zip(events, (33, 47, 83, 97), strict=True):
        assert event.step == pytest.approx(at, abs=5)
    assert detector.order == ("easy", "hard")
    assert detector.findings.order.certainty[0] > 0.99
    assert [stage.name for stage in detector.stages] == ["easy", "hard"]


def test_events_read_as_sentences():
    detector = StageDetector(["syntax"])
    said = [str(event) for event in fed(detector, syntax=np.interp(STEPS, [40, 60], [2.0, 0.0]) + NOISE)]
    assert [sentence.rsplit(" ", 1)[0] for sentence in said] == [
        "syntax begins to fall at step",
        "syntax has fallen at step",
    ]


def test_it_finds_what_find_stages_finds(followed):
    detector, _ = followed
    frame = pd.concat([pd.DataFrame({"group": n, "step": STEPS, "loss": c}) for n, c in FALLS.items()])
    pd.testing.assert_frame_equal(detector.findings.table, find_stages(frame).table)


def test_warm_up_is_left_out():
    curve = np.interp(STEPS, [0, 20, 25, 150], [3.0, 3.0, 1.0, 1.0])
    assert len(find_stages(pd.DataFrame({"group": "a", "step": STEPS, "loss": curve})).stages) == 1
    detector = StageDetector(["a"], warmup=30)
    assert fed(detector, a=curve) == []
    assert detector.stages == ()
    assert len(detector.readings) == 150


def test_groups_may_be_read_at_different_steps():
    detector = StageDetector(["a", "b"])
    for step in range(60):
        detector.update(step, {"a": 1.0})
        if step % 3 == 0:
            detector.update(step, {"b": 1.0})
    assert detector.order == ()
    assert detector.readings.groupby("group").size().to_dict() == {"a": 60, "b": 20}
    assert "b: on its plateau of 1" in detector.summary()
    assert "too few" in StageDetector(["c"]).summary()


WRONG = {
    "no groups": lambda: StageDetector([]),
    "twice": lambda: StageDetector(["a", "a"]),
    "names": lambda: StageDetector([1]),
    "rate": lambda: StageDetector(["a"], false_alarms=0.0),
    "share": lambda: StageDetector(["a"], least=2.0),
    "group": lambda: StageDetector(["a"]).update(0, {"b": 1.0}),
    "nan": lambda: StageDetector(["a"]).update(0, {"a": float("nan")}),
    "steps": lambda: fed(StageDetector(["a"]), [1, 1], a=[1.0, 1.0]),
    "no step": lambda: StageDetector(["a"]).update(float("nan"), {"a": 1.0}),
    "no loss": lambda: StageDetector(["a"]).update(0, {"a": None}),
    "columns": lambda: find_stages(pd.DataFrame({"step": [1]})),
    "frame": lambda: find_stages([1, 2]),
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(AttangentError):
        wrong()


def test_a_refused_reading_leaves_no_trace():
    detector = StageDetector(["a", "b"])
    with pytest.raises(AttangentError, match="loss of b"):
        detector.update(0, {"a": 1.0, "b": float("inf")})
    assert detector.readings.empty


class TwoSpeeds(nn.Module):
    """Two numbers that go to zero; the second begins once the first is small."""

    def __init__(self):
        super().__init__()
        self.fast, self.slow = nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(0.5)

    def forward(self, x):
        gate = (self.fast.detach() < 0.2).float()
        return {"loss": self.fast**2 + gate * self.slow**2 + 0 * x.sum()}


def losses(model):
    assert not model.training
    assert not torch.is_grad_enabled()
    return {"fast": model.fast.item() ** 2, "slow": model.slow.item() ** 2}


def run(tmp_path, callback, steps=120):
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=steps,
        max_grad_norm=0.0,
        learning_rate=0.05,
        optim="sgd",
        lr_scheduler_type="constant",
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        per_device_train_batch_size=1,
        dataloader_pin_memory=False,
    )
    model = TwoSpeeds()
    data = [{"x": torch.zeros(1)}] * 10
    Trainer(model=model, args=arguments, train_dataset=data, callbacks=[callback]).train()
    return model


def test_stages_are_said_and_drawn(tmp_path):
    detector, said = StageDetector(["slow", "fast"]), []
    run(tmp_path, stage_callback(detector, losses, every=3, plot=tmp_path / "stages.png", say=said.append))
    assert detector.order == ("fast", "slow")
    assert detector.readings.query("group == 'fast'").step.tolist() == list(range(0, 121, 3))
    assert [line.split()[0] for line in said[:-1]] == ["slow", "slow"]
    assert said[-1] == detector.summary()
    assert (tmp_path / "stages.png").exists()


def test_modes_come_back():
    model = TwoSpeeds()
    model.train()
    model.dropout.eval()
    callback = stage_callback(StageDetector(["fast", "slow"]), losses)
    state = type("State", (), {"global_step": 0, "is_world_process_zero": True})()
    callback.on_train_begin(None, state, None, model=model)
    assert model.training
    assert not model.dropout.training


def test_wrong_input_is_refused_before_training(tmp_path):
    detector = StageDetector(["a"])
    with pytest.raises(AttangentError, match="every is 0"):
        stage_callback(detector, losses, every=0)
    with pytest.raises(AttangentError, match="ending in"):
        stage_callback(detector, losses, plot=tmp_path / "stages.txt")
