"""Kernels of any module against Jacobians written out, on plain modules and on transformers models."""

import pytest
import torch
from torch import nn
from transformers import Trainer, TrainingArguments

from attangent import AttangentError
from attangent.kernels import KernelDrift, drift_callback, tangent_kernel, unit_data
from attangent.papers.p1_prefix.network import PrefixNetwork


class Hidden(nn.Module):
    """A network with a name of its own for each part."""

    def __init__(self, dtype=torch.float64):
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Linear(3, 5, dtype=dtype)
        self.second = nn.Linear(5, 2, dtype=dtype)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


X, _ = unit_data(7, 3, 1, seed=0)
X2, _ = unit_data(4, 3, 1, seed=1)


def slow_jacobian(module, x, names):
    """J (O n, weights), one backward pass an entry, output-major."""
    rows = []
    outputs = module(x).flatten(1)
    parameters = [dict(module.named_parameters())[name] for name in names]
    for l in range(outputs.shape[1]):
        for i in range(len(outputs)):
            gradients = torch.autograd.grad(outputs[i, l], parameters, retain_graph=True)
            rows.append(torch.cat([gradient.flatten() for gradient in gradients]))
    return torch.stack(rows)


ALL = ["first.weight", "first.bias", "second.weight", "second.bias"]


@pytest.mark.parametrize("memory_limit", [2**30, 12_000, 8_000])
@pytest.mark.parametrize("other", [None, X2])
def test_it_is_the_product_of_the_jacobians_in_any_chunks(other, memory_limit):
    module = Hidden()
    J = slow_jacobian(module, X, ALL)
    J2 = J if other is None else slow_jacobian(module, other, ALL)
    kernel = tangent_kernel(module, X, other, memory_limit=memory_limit)
    torch.testing.assert_close(kernel, J @ J2.T, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("memory_limit", [2**30, 3_000])
@pytest.mark.parametrize("other", [None, X2])
def test_trace_sums_over_equal_outputs(other, memory_limit):
    module = Hidden()
    full = tangent_kernel(module, X, other)
    n2 = len(X if other is None else other)
    expected = torch.einsum("kikj->ij", full.view(2, 7, 2, n2))
    traced = tangent_kernel(module, X, other, trace=True, memory_limit=memory_limit)
    torch.testing.assert_close(traced, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ("first.*", ["first.weight", "first.bias"]),
        (["*.bias"], ["first.bias", "second.bias"]),
        (("first.weight", "second.bias"), ["first.weight", "second.bias"]),
    ],
)
def test_parameters_are_chosen_by_name(params, names):
    module = Hidden()
    J = slow_jacobian(module, X, names)
    torch.testing.assert_close(tangent_kernel(module, X, params=params), J @ J.T, rtol=1e-12, atol=1e-12)


def test_frozen_parameters_are_left_out_unless_named():
    module = Hidden()
    whole = tangent_kernel(module, X, params="second.*")
    module.first.requires_grad_(False)
    torch.testing.assert_close(tangent_kernel(module, X), whole)
    assert not torch.equal(tangent_kernel(module, X, params="*"), whole)


def test_the_module_is_left_as_it_was():
    module = Hidden()
    before = {name: value.clone() for name, value in module.state_dict().items()}
    tangent_kernel(module, X)
    assert all(torch.equal(value, before[name]) for name, value in module.state_dict().items())
    assert all(parameter.grad is None for parameter in module.parameters())


def test_single_precision_stays_single():
    kernel = tangent_kernel(Hidden(torch.float32), X.float())
    assert kernel.dtype == torch.float32
    torch.testing.assert_close(kernel.double(), tangent_kernel(Hidden(), X), rtol=0.5, atol=10)


class PrefixModule(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.W = nn.Parameter(network.W.clone())
        self.register_buffer("a", network.a)

    def forward(self, x):
        return self.W.shape[1] * torch.softmax(x @ self.W, dim=1) @ (self.W * self.a).T


def test_it_agrees_with_the_closed_form_of_a_network():
    network = PrefixNetwork(3, 32, init="independent")
    kernel = tangent_kernel(PrefixModule(network), X) / network.width
    torch.testing.assert_close(kernel, network.kernel(X), rtol=1e-11, atol=1e-11)


class Branching(Hidden):
    """Control flow that depends on the data, which vmap cannot follow."""

    def forward(self, x):
        return super().forward(x) if x.sum() > 0 else super().forward(-x)


def test_modules_that_cannot_be_vectorised_are_walked_point_by_point():
    module = Branching()
    J = torch.cat([slow_jacobian(module, x[None], ALL) for x in X])  # point-major
    J = J.view(7, 2, -1).transpose(0, 1).flatten(0, 1)
    torch.testing.assert_close(tangent_kernel(module, X), J @ J.T, rtol=1e-12, atol=1e-12)


class Named(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = Hidden()

    def forward(self, *, points, scale):
        return {"answer": scale[:, None] * self.inner(points), "other": None}


def test_keyword_arguments_and_structured_outputs():
    scale = torch.linspace(1, 2, 7).double()
    kernel = tangent_kernel(Named(), {"points": X, "scale": scale})
    expected = tangent_kernel(Hidden(), X) * scale.tile(2)[:, None] * scale.tile(2)
    torch.testing.assert_close(kernel, expected)
    part = tangent_kernel(Named(), {"points": X, "scale": scale}, output=lambda out: out["answer"][:, 0])
    torch.testing.assert_close(part, expected[:7, :7])


def tiny_models(attention):
    from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    sizes = {"vocab_size": 11, "attn_implementation": attention, "bos_token_id": 0, "eos_token_id": 0}
    yield GPT2LMHeadModel(GPT2Config(n_layer=1, n_head=2, n_embd=8, n_positions=16, **sizes))
    yield LlamaForCausalLM(
        LlamaConfig(
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            hidden_size=8,
            intermediate_size=8,
            **sizes,
        )
    )


@pytest.mark.parametrize("attention", ["eager", "sdpa"])
@pytest.mark.parametrize("which", [0, 1])
def test_transformers_models(which, attention):
    model = list(tiny_models(attention))[which].double().eval()
    tokens = torch.tensor([[1, 2, 3, 4], [4, 3, 2, 1], [5, 5, 6, 7]])
    last = lambda out: out.logits[:, -1, :3]  # noqa: E731
    names = [name for name, _ in model.named_parameters() if "attn" in name]
    rows = []
    for l in range(3):
        for i in range(3):
            model.zero_grad()
            last(model(tokens[i : i + 1]))[0, l].backward()
            rows.append(torch.cat([dict(model.named_parameters())[name].grad.flatten() for name in names]))
    J = torch.stack(rows)
    kernel = tangent_kernel(model, {"input_ids": tokens}, params="*attn*", output=last)
    torch.testing.assert_close(kernel, J @ J.T, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize(
    ("request_", "message"),
    [
        ({"module": nn.Sequential(nn.Linear(3, 2), nn.Dropout(0.5))}, r"Dropout in training mode.*eval\(\)"),
        ({"module": nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))}, "BatchNorm1d in training mode"),
        ({"module": nn.ReLU()}, "no trainable parameter"),
        ({"params": "third.*"}, r"params 'third.*' matches no parameter; there"),
        ({"x1": ["a"]}, "x1 is list"),
        ({"x1": X[:0]}, r"x1 has \[0\] points"),
        ({"x1": {"points": X, "scale": X[:2]}}, r"x1 has \[2, 7\] points"),
        ({"x1": X * float("nan")}, "x1 has NaN"),
        ({"x2": torch.tensor(1.0)}, "x2 is Tensor"),
        ({"memory_limit": 1_800}, "choose parameters with params="),
        ({"memory_limit": "2GB"}, "memory_limit is '2GB'"),
        ({"output": lambda out: out > 0}, "expected a floating tensor"),
        ({"output": lambda out: "text"}, "output is str"),
    ],
)
def test_bad_requests_are_refused(request_, message):
    with pytest.raises(AttangentError, match=message):
        tangent_kernel(**({"module": Hidden(), "x1": X} | request_))


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
