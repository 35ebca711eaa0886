"""The drift of a model's kernel, alone and in a Trainer's run."""

import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from attangent import AttangentError
from attangent.kernels import KernelDrift, drift_callback, tangent_kernel


class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
        torch.manual_seed(0)
        self.width, self.first, self.second = width, nn.Linear(3, width), nn.Linear(width, 1)
        self.dropout = nn.Dropout(0.5)

    def forward(self, x, labels=None):
        logits = self.second(self.dropout(torch.tanh(self.first(x)))) / self.width**0.5
        return logits if labels is None else {"loss": (logits - labels).square().mean(), "logits": logits}


POINTS = torch.linspace(-1, 1, 12).reshape(4, 3)


def test_the_drift_is_that_of_the_kernels():
    model = Net(8)
    drift = KernelDrift(POINTS)
    assert drift.read(model, 0) == 0.0
    model.eval()
    before = tangent_kernel(model, POINTS, trace=True).double()
    with torch.no_grad():
        model.first.weight += 0.3
    after = tangent_kernel(model, POINTS, trace=True).double()
    assert drift.read(model.train(), 1) == pytest.approx(float((after - before).norm() / before.norm()))
    assert model.dropout.training


def trained(tmp_path, width, **named):
    drift, said = KernelDrift(POINTS), []
    arguments = TrainingArguments(
        output_dir=str(tmp_path / "run"),
        max_steps=10,
        learning_rate=0.05,
        optim="sgd",
        report_to=[],
        save_strategy="no",
        logging_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
        dataloader_pin_memory=False,
    )
    data = [{"x": point, "labels": torch.ones(1)} for point in POINTS]
    callback = drift_callback(drift, every=4, say=said.append, **named)
    Trainer(model=Net(width), args=arguments, train_dataset=data, callbacks=[callback]).train()
    return drift, said


def test_a_trainer_reads_it_as_it_goes(tmp_path):
    drift, said = trained(tmp_path, 4, plot=tmp_path / "drift.png")
    assert drift.steps == [0, 4, 8, 10]
    assert drift.values[0] == 0.0 < drift.values[-1]
    assert said == [f"the tangent kernel moved by {drift.values[-1]:.1%} in 10 steps"]
    assert (tmp_path / "drift.png").exists()
    assert "<table" in drift._repr_html_()
    assert len(repr(drift)) < 80


def test_a_wider_network_drifts_less(tmp_path):
    narrow, _ = trained(tmp_path, 4)
    wide, _ = trained(tmp_path, 256)
    assert wide.values[-1] < 0.5 * narrow.values[-1]


def test_nothing_read_and_kernels_that_say_nothing_are_refused():
    with pytest.raises(AttangentError, match="no readings yet"):
        KernelDrift(POINTS).plot()
    with pytest.raises(AttangentError, match="zero or not finite"):
        KernelDrift(torch.zeros(2, 3), params="weight").read(nn.Linear(3, 1), 0)
    with pytest.raises(AttangentError, match="every"):
        drift_callback(KernelDrift(POINTS), every=0)
