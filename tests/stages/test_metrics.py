"""Readings from CSVs, Trainer states and TensorBoard, and what is refused."""

import json
import os
import sys

import pytest

from attangent import AttangentError
from attangent.stages import read_metrics


def written(tmp_path, text, name="metrics.csv"):
    (tmp_path / name).write_text(text)
    return tmp_path / name


def test_a_wide_csv_with_gaps(tmp_path):
    path = written(tmp_path, "step,a,b,learning_rate,note\n0,2.0,1.0,.1,x\n5,1.5,,.1,y\n10,1.0,0.5,.1,z\n")
    frame = read_metrics(path)
    assert frame[["group", "step", "loss"]].values.tolist() == [
        ["a", 0.0, 2.0],
        ["a", 5.0, 1.5],
        ["a", 10.0, 1.0],
        ["b", 0.0, 1.0],
        ["b", 10.0, 0.5],
    ]
    assert set(read_metrics(path, ["b"])["group"]) == {"b"}
    assert read_metrics(path, ["a"], step="step")["loss"].tolist() == [2.0, 1.5, 1.0]


def test_a_long_csv(tmp_path):
    path = written(tmp_path, "group,step,loss\na,0,2\nb,0,1\na,1,1.5\n")
    assert read_metrics(path)["loss"].tolist() == [2.0, 1.0, 1.5]
    assert read_metrics(path, ["b"])["loss"].tolist() == [1.0]


def test_a_trainer_state(tmp_path):
    history = [
        {"epoch": 0.1, "learning_rate": 1e-4, "loss": 2.0, "step": 10},
        {"epoch": 0.1, "eval_loss": 1.9, "eval_runtime": 3.0, "step": 10},
        {"epoch": 0.2, "loss": 1.5, "step": 20},
        {"train_loss": 1.7, "train_runtime": 9.0, "step": 20},
    ]
    path = written(tmp_path, json.dumps({"log_history": history}), "trainer_state.json")
    frame = read_metrics(path)
    assert frame[["group", "step", "loss"]].values.tolist() == [
        ["loss", 10, 2.0],
        ["eval_loss", 10, 1.9],
        ["loss", 20, 1.5],
    ]
    with pytest.raises(AttangentError, match="no readings of accuracy, it has epoch, eval_loss"):
        read_metrics(path, ["accuracy"])


REFUSED = {
    "step,a\n0,1\n0,2\n": r"row 3 of .*: step 0 of a comes twice",
    "step,a\n5,1\n4,2\n": r"row 3 of .*: step 4 of a comes after step 5",
    "step,a\n0,1\n1,nan\n": r"row 3 of .*: a is nan at step 1",
    "step,a\n0,1\n1,x\n": r"row 3 of .*: loss is 'x', expected a number",
    "step,a\n0,1\nx,2\n": r"row 3 of .*: step is 'x', expected a number",
    "time,a\n0,1\n": "has no column of steps, its columns are time, a",
    "step,note\n0,x\n": "has no column of losses",
    "": "cannot be read as a CSV",
}


@pytest.mark.parametrize("text", REFUSED, ids=REFUSED.values())
def test_what_is_wrong_is_named_with_its_row(tmp_path, text):
    with pytest.raises(AttangentError, match=REFUSED[text]):
        read_metrics(written(tmp_path, text))


def test_other_files_are_refused(tmp_path):
    with pytest.raises(AttangentError, match="no file or folder"):
        read_metrics(tmp_path / "none.csv")
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(AttangentError, match="or it is a pipe"):
        read_metrics(tmp_path / "pipe.csv")
    for content in ("[]", "{", '{"log_history": 3}', '{"log_history": [1]}'):
        with pytest.raises(AttangentError, match=r"no trainer_state\.json"):
            read_metrics(written(tmp_path, content, "state.json"))
    with pytest.raises(AttangentError, match=r"no column c, its columns are step, a"):
        read_metrics(written(tmp_path, "step,a\n0,1\n"), ["c"])


def events(folder, losses, start=0):
    pytest.importorskip("tensorboard")
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as writer:
        for step, loss in enumerate(losses, start):
            writer.add_scalar("train/loss", loss, step)
            writer.add_scalar("learning_rate", 0.1, step)


def test_tensorboard_events_ask_for_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorboard.backend.event_processing", None)
    with pytest.raises(AttangentError, match="tensorboard is not installed"):
        read_metrics(tmp_path)


def test_tensorboard_events_are_read_from_a_folder_above_or_a_file(tmp_path):
    events(tmp_path / "runs" / "first", [2.0, 1.0, 0.5])
    (file,) = (tmp_path / "runs" / "first").iterdir()
    for place in (tmp_path, tmp_path / "runs" / "first", file):
        frame = read_metrics(place)
        assert frame[["group", "step", "loss"]].values.tolist() == [
            ["train/loss", 0, 2.0],
            ["train/loss", 1, 1.0],
            ["train/loss", 2, 0.5],
        ]
    with pytest.raises(AttangentError, match="no readings of eval, it has learning_rate, train/loss"):
        read_metrics(tmp_path, ["eval"])


def test_a_resumed_run_replaces_what_it_does_again(tmp_path):
    events(tmp_path, [4.0, 3.0, 2.0, 1.0])
    events(tmp_path, [2.5, 1.5], start=2)
    frame = read_metrics(tmp_path)
    assert frame["step"].tolist() == [0, 1, 2, 3]
    assert frame["loss"].tolist() == [4.0, 3.0, 2.5, 1.5]


def test_several_runs_and_none_are_refused(tmp_path):
    pytest.importorskip("tensorboard")
    with pytest.raises(AttangentError, match="holds 0 runs"):
        read_metrics(tmp_path)
    for name in ("a", "b"):
        events(tmp_path / name, [1.0])
    with pytest.raises(AttangentError, match=r"holds 2 runs with TensorBoard events \(a, b\)"):
        read_metrics(tmp_path)
    events(tmp_path / "a", [float("nan")], start=5)
    with pytest.raises(AttangentError, match="train/loss is nan at step 5"):
        read_metrics(tmp_path / "a")


def test_a_column_that_stands_twice_is_refused(tmp_path):
    with pytest.raises(AttangentError, match="names a column twice: 'a'"):
        read_metrics(written(tmp_path, "step,a,a\n0,1,2\n1,1,2\n"))


def test_the_mark_that_some_editors_put_first_is_no_letter(tmp_path):
    assert list(read_metrics(written(tmp_path, "\ufeffstep,a\n0,1\n1,2\n"))["loss"]) == [1.0, 2.0]


@pytest.mark.parametrize("name", ["loss", "row", "group"])
def test_a_column_may_have_any_name(tmp_path, name):
    found = read_metrics(written(tmp_path, f"step,{name}\n0,2.0\n5,1.5\n"))
    assert found[["group", "step", "loss"]].values.tolist() == [[name, 0.0, 2.0], [name, 5.0, 1.5]]


def test_groups_of_any_letters_may_be_asked_for(tmp_path):
    path = written(tmp_path, "group,step,loss\na,0,1\na,1,2\n")
    with pytest.raises(AttangentError):
        read_metrics(path, ["\udcff"])
