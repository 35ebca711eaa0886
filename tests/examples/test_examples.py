"""Every script in examples/ runs by itself and finds what it says it finds."""

import importlib.util
import re
import runpy
from pathlib import Path

import pytest
import torch

from tests.docs.snippets import QUESTIONS, TEXT
from tests.docs.toys import save_chat_model

FOLDER = Path(__file__).parents[2] / "examples"
SCRIPTS = sorted([*FOLDER.glob("*.py"), *FOLDER.glob("extend/*.py")])
FINDS = {
    "audit": r"P2/definition-3\.6: holds\nP2/equation-25: violated",
    "compress": r"1\d\d tokens of the prompt are 64 virtual tokens per head now\nanswer: ",
    "diffusion": r"modes covered: 4 of 4",
    "forecast": r"mean error [1-5]\.\d; (7|8|9)\d% of the values inside",
    "in_context": r"nearest to 'ridge on tokens'.*\n.*nearest to '3 nearest'",
    "predict_training": r"width 4096: .*\(0\.0\d% off\)",
    "stages": r"order: easy < hard \(100%\)",
    "tangent_kernels": r"kernel: \(20, 20\) symmetric: True",
    "watch_training": r"order: easy < hard \(100%\)\nthe tangent kernel moved by [3-9]\d\.\d% in 400 steps",
    "backend": r"largest difference: \de-1[5-7]",
    "claim": r"True: holds\nindependent draws: False: violated",
    "compression_method": r"tokens='90 -> 16', method='first-and-last'.*\n.*: True",
    "feature_map": r"gradient is that of autograd: True",
    "forecaster": r"one series: \[138.*\n22 series by {.drift.}, 264 rows\nin auto, MASE of drift.*: \d",
    "tuning_method": r"160 trained parameters, .*\nloaded: (praise|blame)",
    "tune": r"loss 4\.\d+ -> 0\.\d+\nloaded model answers the same: True",
}


def test_every_script_is_here_and_in_the_list():
    names = {path.stem for path in SCRIPTS}
    assert names == set(FINDS)
    listed = set(re.findall(r"`(\w+)\.py`", (FOLDER / "README.md").read_text()))
    pages = "".join(page.read_text() for page in (FOLDER.parent / "docs/extend").glob("*.md"))
    listed |= set(re.findall(r'^--8<-- "examples/extend/(\w+).py"$', pages, re.MULTILINE))
    assert names == listed


def arguments_of(script: Path, folder: Path) -> list[str]:
    """A toy model, a text and a question for the script that asks for them."""
    if script.stem != "compress":
        return []
    (folder / "guide.md").write_text(TEXT * 3)
    words = re.findall(r"\w+|[^\w\s]", TEXT + QUESTIONS)
    return [str(save_chat_model(folder / "model", words)), "guide.md", "Who is the mayor?"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_a_script_finds_what_it_should(script, monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", [str(script), *arguments_of(script, tmp_path)])
    torch.manual_seed(0)
    runpy.run_path(str(script), run_name="__main__")
    assert re.search(FINDS[script.stem], capsys.readouterr().out)


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_no_script_hides_an_installed_module(script):
    """A script's folder comes first on the path: `kernels.py` would hide what transformers looks for."""
    assert importlib.util.find_spec(script.stem) is None
    assert script.stem not in {"kernels", "datasets", "tokenizers", "compression", "forecasting"}
