"""The callback in a real training run: a model that learns one group after another."""

import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from attangent import AttangentError
from attangent.stages import StageDetector, stage_callback


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
