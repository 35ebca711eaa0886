"""Small instances of the classes that entries take or belong to, by the name of the class."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import torch

_X = torch.linspace(-1, 1, 12, dtype=torch.float64).reshape(4, 3)


def wave(count: int = 120) -> np.ndarray:
    return np.sin(np.arange(float(count))) + 0.1 * np.cos(7.0 * np.arange(count))


def days(count: int) -> pd.DatetimeIndex:
    return pd.date_range("2020-01-01", periods=count)


def panel() -> pd.DataFrame:
    return pd.DataFrame({"unique_id": "a", "ds": days(40), "y": wave(40)})


def readings() -> pd.DataFrame:
    steps = np.arange(80.0)
    return pd.DataFrame({"group": "a", "step": steps, "loss": np.exp(-steps / 20)})


@cache
def _saved_language_model() -> Any:
    """A language model of two layers and its tokenizer; callers get a copy."""
    import tempfile
    from pathlib import Path

    from transformers import AutoModelForCausalLM, AutoTokenizer

    from tests.adapters.tiny import save_llama

    folder = save_llama(Path(tempfile.mkdtemp(prefix="drill-")))
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def language_model() -> Any:
    import copy

    return copy.deepcopy(_saved_language_model()[0])


def tokenizer() -> Any:
    return _saved_language_model()[1]


def attached() -> Any:
    from attangent.adapters import NTKConfig, attach

    return attach(language_model(), NTKConfig(features="elu", units="raw"))


def attached_twice() -> Any:
    from attangent.adapters import NTKConfig, attach

    return attach(attached(), NTKConfig(features="elu", units="raw"), name="other")


@cache
def audit_run() -> str:
    """The folder of a finished audit of one claim."""
    from attangent.audit import run

    run(["P1/algorithm-1"], seeds=1, out="finished")
    return "finished"


def anchored_state() -> Any:
    from attangent.attention import PrefixState

    return PrefixState.zero(INSTANCES["Anchors"](), heads=2)


def _elu() -> Any:
    from attangent.attention.features import Elu

    return Elu(4)


def _state() -> Any:
    from attangent.attention import PrefixState

    return PrefixState.zero(_elu(), heads=2)


def _ragged() -> Any:
    from attangent.attention import RaggedState

    keys = [torch.ones(2, 4), torch.ones(3, 4)]
    return RaggedState.of(keys, keys, [torch.ones(2), torch.ones(3)])


def _ragged_tokens() -> Any:
    from attangent.attention import RaggedTokens

    keys = [torch.ones(2, 4), torch.ones(3, 4)]
    return RaggedTokens.of(keys, keys, [torch.ones(2), torch.ones(3)])


def _features(name: str) -> Callable[[], Any]:
    def build() -> Any:
        from attangent.attention import features as room

        makers = {
            "Anchors": lambda: room.Anchors(torch.ones(2, 5, 4)),
            "Calibrated": lambda: room.Calibrated(
                room.Elu(4), torch.zeros(2, 4), torch.ones(2), torch.zeros(2)
            ),
            "Learned": lambda: room.Learned.draw(4, 6, 0),
            "PositiveRandom": lambda: room.PositiveRandom(4, 6),
            "Printed": lambda: room.Printed(4),
            "Taylor": lambda: room.Taylor(4, 2),
        }
        return makers[name]()

    return build


def _kernels(name: str, *sizes: int) -> Callable[[], Any]:
    def build() -> Any:
        from attangent import kernels

        return getattr(kernels, name)(*sizes)

    return build


def softmax_network() -> Any:
    return _kernels("SoftmaxNetwork", 3, 2, 8)()


def _prediction() -> Any:
    from attangent.kernels import predict_training

    return predict_training(torch.eye(4, dtype=torch.float64), torch.ones(4, dtype=torch.float64), 0.1)


def _operator() -> Any:
    return softmax_network().kernel_operator(_X)


def _tangent_model() -> Any:
    from attangent.kernels.modules import TangentModel

    return TangentModel.of(torch.nn.Linear(3, 2).double(), _X)


def _process() -> Any:
    from attangent.diffusion import ForwardProcess

    return ForwardProcess()


def _mixture() -> Any:
    from attangent.diffusion import GaussianMixture

    return GaussianMixture.ring()


def score_data(seed: int = 0) -> Any:
    from attangent.diffusion import draw_data

    return draw_data(_mixture(), _process(), 12, seed=seed)


def _adam() -> Any:
    from attangent.diffusion import Adam

    return Adam(steps=2, rate=0.1, quiet=True)


def softmax_score() -> Any:
    from attangent.diffusion import Descent, SoftmaxScore

    return SoftmaxScore(_process(), m=8, trainer=Descent(steps=2, quiet=True)).fit(score_data())


def kernel_score() -> Any:
    from attangent.diffusion import KernelScore

    return KernelScore(_process(), m=8, steps=2).fit(score_data())


def _mlp_score() -> Any:
    from attangent.diffusion import MLPScore

    return MLPScore(_process(), hidden=4, trainer=_adam()).fit(score_data())


def _exact_score() -> Any:
    from attangent.diffusion import ExactScore

    return ExactScore(_process(), _mixture())


def dictionary() -> Any:
    from attangent.icl import Dictionary

    return Dictionary.random(K=5, d=3, m=2, N=4, tau=0.1)


def _one_layer() -> Any:
    from attangent.icl import OneLayerAttention

    return OneLayerAttention(dictionary(), heads=4)


def _transformer() -> Any:
    from attangent.icl import InContextTransformer, TransformerConfig

    return InContextTransformer(3, 2, TransformerConfig(1, 8, 8, 2))


def _trainer() -> Any:
    from attangent.icl import TransformerTrainer

    return TransformerTrainer(steps=2, batch=4, prompts=8, record_every=1)


def _ridge() -> Any:
    from attangent.icl import InContextRidge

    return InContextRidge().fit(np.eye(4), np.arange(4.0))


def forecaster(name: str) -> Callable[[], Any]:
    def build() -> Any:
        from attangent import forecast

        model = getattr(forecast, name)(24, 3)
        if hasattr(model, "training"):
            model.training = forecast.Training(epochs=1, batches=2)
        if hasattr(model, "size"):
            model.size = forecast.Encoder(8, 2, 1)
        return model.fit(wave())

    return build


def dataset() -> Any:
    from attangent.forecast import from_frame

    return from_frame(pd.DataFrame({"a": wave(400), "b": wave(400)[::-1]}), "waves")


def _series_forecaster() -> Any:
    from attangent.forecast import SeriesForecaster

    return SeriesForecaster(model="persistence").fit(panel())


def _ssm() -> Any:
    from attangent.forecast import ResidualSSM

    return ResidualSSM(3)


def _attention_model() -> Any:
    from attangent.forecast import AttentionModel

    return AttentionModel(3, 4)


def _relu_attention() -> Any:
    from attangent.stages import ReluAttention

    return ReluAttention(6, std=0.1)


def two_stage_data() -> Any:
    from attangent.stages import TwoStageData

    return TwoStageData(6, 4, p_only=0.25, q_only=0.25)


def _prompts() -> Any:
    return two_stage_data().sample(16)


def _noisy_sgd() -> Any:
    from attangent.stages import NoisySGD
    from attangent.stages.theory.training import ConstantRate

    return NoisySGD((ConstantRate(0.01, 2),), weight_decay=0.01, init_std=0.1)


def _detector() -> Any:
    from attangent.stages import StageDetector

    return StageDetector(["a", "b"])


def _edit() -> Any:
    from attangent.stages import edit_spectrum

    return edit_spectrum(language_model(), "largest", rho=0.5)


def _claim() -> Any:
    return next(iter(_claims().values()))


@cache
def _claims() -> dict[str, Any]:
    from attangent.audit import all_claims

    return all_claims()


def _numeric_schedule() -> Any:
    from attangent.diffusion import NumericSchedule

    return NumericSchedule(torch.ones_like, T=1.0)


def _comparison() -> Any:
    from attangent.icl import compare_to_ridge

    return compare_to_ridge(lambda tokens, labels, queries: labels[:, :1], dictionary(), prompts=20)


def _low_rank() -> Any:
    from attangent.kernels.modules import nystrom

    return nystrom(_operator(), 2)


def _linearised() -> Any:
    from attangent.kernels import train_linearised

    return train_linearised(torch.nn.Linear(3, 2).double(), _X, _X[:, :2], 0.1, 2)


def _run() -> Any:
    from attangent.audit import load

    return load(audit_run())


def _outlook() -> Any:
    from attangent.forecast import forecast_frame

    return forecast_frame(pd.DataFrame({"a": wave(60)}), ["a"], 3, model="persistence")[0]


def _kernel_tuned() -> Any:
    from attangent import KernelTuned

    return KernelTuned("no/such/model")


def _tuning() -> Any:
    from attangent.tuning.request import Tuning
    from drill.jobs import rows, small_encoder

    return Tuning(small_encoder(), rows())


INSTANCES: dict[str, Callable[[], Any]] = {
    "FeatureMap": _elu,
    "Elu": _elu,
    **{n: _features(n) for n in ("Anchors", "Calibrated", "Learned", "PositiveRandom", "Printed", "Taylor")},
    "Prefix": _state,
    "PrefixState": _state,
    "RaggedState": _ragged,
    "RaggedTokens": _ragged_tokens,
    **{n: _kernels(n, 3, 2, 8) for n in ("SoftmaxNetwork", "ReLUNetwork", "ExpNetwork")},
    "Network": softmax_network,
    "TwoLayerNetwork": softmax_network,
    "PrefixNetwork": _kernels("PrefixNetwork", 3, 8),
    "ScalarAttention": _kernels("ScalarAttention", 3, 8),
    "Prediction": _prediction,
    "LinearOperator": _operator,
    "KernelOperator": _operator,
    "Tangent": lambda: softmax_network().tangent(_X),
    "Factor": lambda: softmax_network().tangent(_X).gate,
    "TangentModel": _tangent_model,
    "Functional": lambda: _tangent_model().function,
    "ForwardProcess": _process,
    "Target": _mixture,
    "GaussianMixture": _mixture,
    "Schedule": lambda: _process().schedule,
    "ScoreData": score_data,
    "Trainer": _adam,
    "SoftmaxScore": softmax_score,
    "ScoreEstimator": _exact_score,
    "ExactScore": _exact_score,
    "Scorer": _exact_score,
    "KernelScore": kernel_score,
    "MLPScore": _mlp_score,
    "Dictionary": dictionary,
    "OneLayerAttention": _one_layer,
    "InContextTransformer": _transformer,
    "TransformerTrainer": _trainer,
    "InContextRidge": _ridge,
    **{
        n: forecaster(n)
        for n in (
            *("Persistence", "SeasonalNaive", "LinearForecaster", "DLinear", "NLinear", "RLinear"),
            *("PatchTST", "VanillaTransformer", "InvertedTransformer", "Autoformer", "Informer"),
        )
    },
    "Forecaster": forecaster("Persistence"),
    "Dataset": dataset,
    "SeriesForecaster": _series_forecaster,
    "ResidualSSM": _ssm,
    "AttentionModel": _attention_model,
    "ReluAttention": _relu_attention,
    "TwoStageData": two_stage_data,
    "Prompts": _prompts,
    "QPrompts": _prompts,
    "NoisySGD": _noisy_sgd,
    "StageDetector": _detector,
    "SpectrumEdit": _edit,
    "Claim": _claim,
    "NumericSchedule": _numeric_schedule,
    "Comparison": _comparison,
    "LowRank": _low_rank,
    "LinearisedRun": _linearised,
    "Run": _run,
    "KernelTuned": _kernel_tuned,
    "Tuning": _tuning,
    "Outlook": _outlook,
}
