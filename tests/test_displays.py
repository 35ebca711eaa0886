"""Every result shows itself: a short text, a table of HTML, a picture that is also a file."""

import numpy as np
import pandas as pd
import pytest

from attangent import predict_training
from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series
from attangent.compression.fidelity import Fidelity
from attangent.compression.quiz import Answer
from attangent.compression.report import Report
from attangent.forecast import SeriesForecaster, evaluate, forecast_frame
from attangent.icl import Dictionary, compare_to_ridge, predictor_of
from attangent.kernels import SoftmaxNetwork, unit_data
from attangent.papers.p4_in_context.one_layer.attention import OneLayerAttention
from attangent.stages import StageDetector, find_stages
from attangent.tuning import LabelPrediction, TuningRuns
from tests.audit.examples import make_record, make_run

HOSTILE = "<script>alert(1)</script>"


def finding():
    steps = np.arange(1.0, 4000.0)
    curve = Figure("loss", "step", "loss", (Series.of("a", steps, 1 / steps), Series.of("b", steps, steps)))
    bars = Figure("b", "", "y", (Series.of("c", [0, 1], [1, 2], "bars"),), ticks=("x", "y"))
    lines = (Conclusion("loss / bound", "<=", 1.0, 0.5), Conclusion(HOSTILE, "<=", 1.0, 2.0))
    return Finding(lines, (Hypothesis("width", ">=", 3.0, 4.0),), figures=(curve, bars))


def run(seeds=1):
    return make_run(*(make_record("P2/lemma-1", finding(), seed) for seed in range(seeds)))


def prediction():
    X, Y = unit_data(n=4, d_in=3, d_out=2, seed=0)
    network = SoftmaxNetwork(d_in=3, d_out=2, m=64)
    return predict_training(network.kernel(X), network.forward(X) - Y, rate=1e-3, width=network.m)


def months(*names):
    times = pd.date_range("2020-01-01", periods=40, freq="MS")
    wave = 10 + np.sin(2 * np.pi * np.arange(40) / 12)
    parts = [{"unique_id": name, "ds": times, "y": k * wave} for k, name in enumerate(names, 1)]
    return pd.concat([pd.DataFrame(part) for part in parts])


def readings():
    steps = np.arange(100)
    return pd.DataFrame({"group": HOSTILE, "step": steps, "loss": 1 + 1 / (1 + np.exp((steps - 50) / 4))})


def detector():
    made = StageDetector([HOSTILE])
    for step, loss in enumerate(readings()["loss"][:60:2]):
        made.update(step, {HOSTILE: loss})
    return made


def in_context():
    dictionary = Dictionary.random(K=12, d=8, m=4, N=6, tau=0.01, seed=0)
    model = OneLayerAttention(dictionary, heads=16)
    model.fit(method="solve")
    return compare_to_ridge(predictor_of(model), dictionary, prompts=20)


def report(**more):
    loss, agree = dict.fromkeys(("full", "compressed", "none"), 1.0), {"compressed": 0.9, "none": 0.5}
    answers = (Answer(HOSTILE, "A b.", "A b.", "c"),)
    kept = Fidelity({"compressed": 0.1, "none": 1.0}, loss, agree)
    return Report(100, 8, "recall", kept, {}, 1000, 80, answers, answers, **more)


def curve():
    tried = [
        {"size": n, "distilled": 0, "kept": n // 4, "asked": 16, "share": n / 64, "bytes": 1, "seconds": 1.0}
        for n in (16, 32, 64)
    ]
    return report(goal={"met": True, "stopped": "", "attempts": tried})


RESULTS = {
    "finding": lambda: finding(),
    "run": run,
    "result": lambda: run().results()[0],
    "prediction": lambda: prediction(),
    "set forecast": lambda: SeriesForecaster().fit(months("a", HOSTILE)).outlook(3, [80]),
    "outlook": lambda: forecast_frame(months("a").set_index("ds")[["y"]], ["y"], 3),
    "evaluation": lambda: evaluate(months("a", HOSTILE), 3),
    "stages": lambda: find_stages(readings()),
    "detector": lambda: detector(),
    "in context": lambda: in_context(),
    "compression": lambda: report(),
    "compression, curve": lambda: curve(),
    "tuning": lambda: TuningRuns([{"seed": 0, "method": HOSTILE, "eval_accuracy": 0.9}]),
    "label": lambda: LabelPrediction(HOSTILE, {HOSTILE: 0.9, "no": 0.1}),
}


@pytest.mark.parametrize("name", RESULTS)
def test_a_result_shows_itself(name, tmp_path):
    shown = RESULTS[name]()
    assert len(repr(shown)) < 250
    html = shown._repr_html_()
    assert html.startswith("<div")
    assert "<script" not in html
    assert 100 < len(html) < 30_000
    figure = shown.plot(path=tmp_path / "picture.png")
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
    assert figure.axes


def test_a_run_of_many_findings_has_a_short_text():
    made = run(30)
    assert len(repr(made)) < 200
    assert len(repr(made.records[0].finding.figures)) < 1000


def test_a_training_is_drawn_beside_its_prediction(tmp_path):
    figure = prediction().plot(40, trained=np.linspace(2, 1, 60))
    assert len(figure.axes[0].lines) == 2
