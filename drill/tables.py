"""Arguments that annotations do not tell: by room and name, and by entry."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from drill import instances


def _points(rows: int = 4, columns: int = 3) -> torch.Tensor:
    return torch.linspace(-0.5, 0.5, rows * columns, dtype=torch.float64).reshape(rows, columns)


def _tokens() -> torch.Tensor:
    return torch.linspace(-1, 1, 24).reshape(1, 2, 3, 4)


def _keys() -> torch.Tensor:
    return torch.linspace(-1, 1, 40).reshape(2, 5, 4)


NAMED: dict[tuple[str, str], Callable[[], Any]] = {
    **{("attention", name): _tokens for name in ("q", "k", "v", "output", "x")},
    **{("attention", name): _keys for name in ("keys", "values", "queries", "prefix_k", "prefix_v")},
    **{("kernels", name): _points for name in ("X", "x", "x1")},
    ("kernels", "Y"): lambda: _points(4, 2),
    ("kernels", "right_side"): lambda: torch.ones(8, dtype=torch.float64),
    **{("diffusion", name): lambda: _points(6, 2) for name in ("x", "a", "b", "x0", "points", "samples")},
    ("diffusion", "truth"): lambda: _points(6, 2),
    ("diffusion", "t"): lambda: 0.5,
    **{("forecast", name): instances.wave for name in ("train", "series")},
    **{("forecast", name): instances.panel for name in ("df",)},
    ("forecast", "lookback"): lambda: 24,
    ("forecast", "windows"): lambda: instances.wave(24),
    ("icl", "labels"): lambda: _points(2, 4),
    ("stages", "model"): instances.language_model,
    ("stages", "readings"): instances.readings,
    ("stages", "tokenizer"): instances.tokenizer,
    ("stages", "weight_decay"): lambda: 0.01,
    ("adapters", "model"): instances.attached,
    ("adapters", "name"): lambda: "default",
    ("compression", "model"): instances.language_model,
    ("compression", "tokenizer"): instances.tokenizer,
}


def _ones(*shape: int) -> torch.Tensor:
    return torch.ones(*shape, dtype=torch.float64)


def _file(name: str, content: str) -> str:
    Path(name).write_text(content)
    return name


def _csv() -> str:
    rows = [
        f"{day.date()},{value}" for day, value in zip(instances.days(400), instances.wave(400), strict=True)
    ]
    return _file("series.csv", "\n".join(["date,a", *rows]))


def _metrics() -> str:
    return _file("metrics.csv", instances.readings().to_csv(index=False))


def _saved_state() -> str:
    instances.INSTANCES["PrefixState"]().save("state.safetensors")
    return "state.safetensors"


def _saved_adapter() -> Path:
    from attangent.adapters import save_adapter

    return save_adapter(instances.attached(), "adapter")


_EVEN: dict[str, Any] = {"m": 8}
_FIT: dict[str, Any] = {"x": _points(), "module": torch.nn.Linear(3, 2).double()}
ARGUMENTS: dict[str, Callable[[], dict[str, Any]]] = {
    "adapters.attaching.attach": lambda: {"model": instances.language_model()},
    "adapters.config.NTKConfig.from_dict": lambda: {"settings": {"features": "elu"}},
    "adapters.files.save.load_adapter": lambda: {
        "model": instances.language_model(),
        "folder": _saved_adapter(),
    },
    "adapters.files.save.save_adapter": lambda: {"folder": "adapter"},
    "adapters.switch.delete": lambda: {"model": instances.attached_twice(), "name": "other"},
    "attention.features.calibrated.Calibrated": lambda: {
        "mean": torch.zeros(2, 4),
        "scale": torch.ones(2),
        "level": torch.zeros(2),
    },
    "attention.features.learned.Learned": lambda: {"bias": _ones(3)},
    "attention.portable.merge_prefix": lambda: {"logsumexp": torch.zeros(1, 2, 3)},
    "attention.ragged.RaggedState": lambda: _ragged(),
    "attention.ragged.RaggedTokens": lambda: _ragged(),
    "attention.ragged.RaggedState.from_state": lambda: {"state": instances.anchored_state()},
    "attention.ragged.RaggedState.of": lambda: _heads(),
    "attention.ragged.RaggedTokens.of": lambda: _heads(),
    "attention.state.PrefixState": lambda: {"Z": torch.ones(2, 4, 4), "k": torch.ones(2, 4)},
    "attention.state.PrefixState.load": lambda: {"path": _saved_state()},
    "attention.state.PrefixState.save": lambda: {"path": "state.safetensors"},
    "audit.claims.Claim": lambda: {"id": "P9/lemma-1"},
    "audit.registry.claim": lambda: {"id": "P9/lemma-1"},
    "audit.claims.Claim.settings": lambda: {"profile": "quick"},
    "audit.finding.Series.of": lambda: {"x": [0.0, 1.0], "y": [0.0, 1.0]},
    "audit.lines.Conclusion.of_trend": lambda: {"sizes": [1, 2, 3, 4], "values": [4, 3, 2, 1]},
    "audit.lines.Trend": lambda: {"sizes": (1.0, 2.0, 3.0, 4.0), "values": (4.0, 3.0, 2.0, 1.0)},
    "audit.registry.get": lambda: {"id": "P1/algorithm-1"},
    "audit.results.load": lambda: {"run": instances.audit_run()},
    "audit.running.runner.run": lambda: {"ids": ["P1/algorithm-1"], "seeds": 1, "out": "audit"},
    "compression.entry.compress": lambda: {"prompt": "the red cat sat on the mat . " * 6, "size": 2},
    "diffusion.dataset.ScoreData": lambda: {"t": _ones(6), "y": _points(6, 2)},
    "diffusion.dataset.ScoreData.check_beside": lambda: {"validation": instances.score_data(1)},
    "diffusion.dataset.ScoreData.with_labels": lambda: {"y": _points(12, 2)},
    "diffusion.errors.error_terms": lambda: {"steps": [1, 2]},
    "diffusion.errors.hilbert_function": lambda: {"points": instances.score_data()},
    "diffusion.kernel.KernelScore.at": lambda: {"step": 1},
    "diffusion.kernel.KernelScore.relabelled": lambda: {"y": _points(12, 2)},
    "diffusion.mixture.GaussianMixture": lambda: {
        "weights": _ones(2) / 2,
        "means": _points(2, 2),
        "variances": _ones(2, 2),
    },
    "diffusion.mixture.GaussianMixture.full": lambda: {
        "means": _points(2, 2),
        "covariances": torch.eye(2, dtype=torch.float64).repeat(2, 1, 1),
    },
    "diffusion.mixture.GaussianMixture.gaussian": lambda: {"mean": [0.0, 1.0]},
    "diffusion.mlp.MLPScore.at": lambda: {"step": 1},
    "diffusion.softmax.SoftmaxScore.at": lambda: {"step": 1},
    "diffusion.process.ForwardProcess.score": lambda: {"posterior_mean": _points(6, 2)},
    "diffusion.quality.sample_quality": lambda: {"samples": _points(20, 2), "truth": _points(20, 2)},
    "diffusion.schedule.NumericSchedule": lambda: {"function": torch.ones_like},
    "diffusion.training.Course.weights": lambda: {"step": 3},
    "diffusion.training.Adam.optimiser": lambda: {"weights": [_ones(2, 2)], "curvature": lambda: 1.0},
    "diffusion.training.Descent.optimiser": lambda: {"weights": [_ones(2, 2)], "curvature": lambda: 1.0},
    "forecast.data.dataset.load_csv": lambda: {"path": _csv()},
    "forecast.data.frames.read_frame": lambda: {"path": _csv()},
    "forecast.models.training.Training.rate_for": lambda: {"windows": 10},
    "forecast.outlook.protocol.compare": lambda: {"horizons": [3]},
    "forecast.outlook.protocol.errors_by_step": lambda: {"series": instances.wave().reshape(-1, 1)},
    "forecast.outlook.targets.forecast_frame": lambda: {"targets": ["a"]},
    "forecast.theory.attention_model.AttentionModel": lambda: {"m": 4},
    "forecast.theory.attention_model.AttentionModel.forward": lambda: {"x": _points(4, 3)},
    "forecast.theory.attention_model.train_attention": lambda: {"x": _points(4, 3), "y": _ones(4)},
    "forecast.theory.ssm.ResidualSSM.linear_risk": lambda: {"weights": _ones(3)},
    "icl.attention.OneLayerAttention.sampled_gradient": lambda: {"labels": _points(2, 5)},
    "icl.attention.OneLayerAttention.set_parameters": lambda: {"Q": _ones(4, 3, 3), "w": _ones(4, 5)},
    "icl.compare.Comparison.plot": lambda: {"path": "picture.png"},
    "icl.compare.compare_to_ridge": lambda: {"predictor": lambda tokens, labels, queries: labels[:, :1]},
    "icl.compare.predictor_of": lambda: {"model": instances.INSTANCES["OneLayerAttention"]()},
    "icl.estimator.InContextRidge.fit": lambda: {"X": np.eye(4), "y": np.arange(4.0)},
    "icl.estimator.InContextRidge.predict": lambda: {"X": np.eye(4)},
    "icl.ridge.clean_risk": lambda: {"matrix": _ones(4, 5)},
    "icl.ridge.expected_distance": lambda: {"first": _ones(4, 5), "second": _ones(4, 5)},
    "icl.transformer.InContextTransformer.forward": lambda: {
        "tokens": torch.ones(4, 3),
        "labels": torch.ones(2, 4),
        "queries": torch.ones(1, 3),
    },
    "icl.transformer.InContextTransformer.predict": lambda: {"labels": _points(2, 4)},
    **{
        f"kernels.{name}": lambda: dict(_EVEN)
        for name in (
            *("activation.ExpNetwork", "activation.ReLUNetwork", "softmax.SoftmaxNetwork"),
            *("prefix.PrefixNetwork", "scalar_attention.ScalarAttention"),
        )
    },
    **{
        f"kernels.{name}.with_weights": lambda: {"W": _ones(3, 8)}
        for name in (
            *("activation.ExpNetwork", "activation.ReLUNetwork", "softmax.SoftmaxNetwork"),
            *("prefix.PrefixNetwork", "network.TwoLayerNetwork"),
        )
    },
    "kernels.scalar_attention.ScalarAttention.with_weights": lambda: {"W": _ones(1, 8)},
    "kernels.modules.low_rank.LowRank.times": lambda: {"x": _ones(8, 2)},
    "kernels.activation.ReLUNetwork.slope": lambda: {"z": _points()},
    "kernels.guarantee.prefix_guarantee": lambda: {"Y": _points(4, 3)},
    "kernels.guarantee.require_unit_ball": lambda: {"values": _points(4, 3) / 9},
    "kernels.linearised.train_linearised": lambda: {**_FIT, "y": _points(4, 2)},
    "kernels.module_kernel.tangent_kernel": lambda: {"module": torch.nn.Linear(3, 2).double()},
    "kernels.modules.low_rank.LowRank": lambda: {"values": _ones(2), "vectors": _ones(8, 2)},
    "kernels.modules.operator.tangent_operator": lambda: dict(_FIT),
    "kernels.modules.tangent_model.TangentModel.of": lambda: dict(_FIT),
    **{
        f"kernels.modules.tangent_model.TangentModel.{name}": lambda: {"theta": _ones(8)}
        for name in ("named", "true_outputs")
    },
    "kernels.modules.tangent_model.TangentModel.along": lambda: {"theta": _ones(2, 8)},
    "kernels.modules.tangent_model.TangentModel.train": lambda: _training(),
    "kernels.operator.KernelOperator": lambda: {"memory_limit": 2.0**30},
    "kernels.predict.predict_training": lambda: {
        "kernel": torch.eye(4, dtype=torch.float64),
        "residual": _ones(4),
    },
    "kernels.predict.Prediction.outputs": lambda: {"test_kernel": _ones(2, 4)},
    **{f"kernels.prefix.PrefixNetwork.{name}": lambda: {"Y": _points()} for name in ("descend", "gradient")},
    **{
        f"kernels.scalar_attention.ScalarAttention.{name}": lambda: {"Y": _points(4, 1)}
        for name in ("descend", "gradient")
    },
    "kernels.tangent.Tangent.pull": lambda: {"V": _ones(4, 2)},
    "kernels.tangent.Tangent.pull_back": lambda: {"V": _ones(4, 2)},
    "kernels.tangent.Tangent.push": lambda: {"U": _ones(3, 2)},
    "kernels.tangent.Tangent.push_forward": lambda: {"U": _ones(3, 8)},
    "stages.detector.callback.stage_callback": lambda: {"losses": lambda model: {"a": 1.0}},
    "stages.detector.detector.StageDetector.update": lambda: {"losses": {"a": 1.0, "b": 2.0}},
    "stages.detector.sources.read_metrics": lambda: {"path": _metrics()},
    "stages.spectra.edit.edit_spectrum": lambda: {"rho": 0.5},
    "stages.spectra.effect.measure_effect": lambda: {"texts": ["the red cat sat"]},
    "stages.spectra.search.search_spectrum": lambda: {
        "validate": lambda model: 1.0,
        "test": lambda model: 1.0,
        "rhos": [0.5],
        "quiet": True,
    },
    "tuning.planning.making.plan_tuning": lambda: {"methods": ["head"]},
    "stages.theory.training.train": lambda: {"model": instances.INSTANCES["ReluAttention"]()},
}


def _ragged() -> dict[str, Any]:
    return {"keys": torch.ones(5, 4), "Z": torch.ones(5, 4), "mass": torch.ones(5), "sizes": [2, 3]}


def _heads() -> dict[str, Any]:
    keys = [torch.ones(2, 4), torch.ones(3, 4)]
    return {"keys": keys, "values": keys, "masses": [torch.ones(2), torch.ones(3)]}


def _training() -> dict[str, Any]:
    from attangent.kernels.modules import Optimiser

    return {
        "targets": _points(4, 2),
        "loss": torch.nn.functional.mse_loss,
        "optimiser": Optimiser(2),
        "rates": [0.1],
        "order": [[0, 1], [2, 3]],
        "record": [0, 2],
    }
