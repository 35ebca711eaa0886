"""Readers of files, each with a good file: what hostile files are given to."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from chaos import instances
from chaos import readers_of_runs as runs
from chaos.jobs import rows


class Reader(NamedTuple):
    """`good` writes good files below a folder and names the one to spoil; `read` reads the folder."""

    name: str
    good: Callable[[Path], Path]
    read: Callable[[Path], Any]


def _adapter(spoilt: str) -> Callable[[Path], Path]:
    def good(folder: Path) -> Path:
        from attangent.adapters import save_adapter

        save_adapter(instances.attached(), folder)
        return folder / spoilt

    return good


def _load_adapter(folder: Path) -> Any:
    from attangent.adapters import load_adapter

    return load_adapter(instances.language_model(), folder) and None


def _state(folder: Path) -> Path:
    instances.prefix_state().save(folder / "state.safetensors")
    return folder / "state.safetensors"


def _load_state(folder: Path) -> Any:
    from attangent import PrefixState

    return PrefixState.load(folder / "state.safetensors") and None


def _table(name: str) -> Callable[[Path], Path]:
    def good(folder: Path) -> Path:
        text = instances.panel().to_csv(index=False).encode()
        (folder / name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
        return folder / name

    return good


def _read_series(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from attangent.forecast import SeriesForecaster

        return SeriesForecaster(models="persistence").fit(folder / name).predict(2)

    return read


def _read_frame(folder: Path) -> Any:
    from attangent.forecast import forecast_frame

    return forecast_frame(folder / "table.csv", ["unique_id"], 2, model="persistence").frame.shape


def _metrics(folder: Path) -> Path:
    (folder / "metrics.csv").write_text(instances.readings().to_csv(index=False))
    return folder / "metrics.csv"


def _trainer_state(folder: Path) -> Path:
    log = [{"step": step, "loss": 1.0 / (1 + step)} for step in range(40)]
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": log}))
    return folder / "trainer_state.json"


def _read_metrics(name: str) -> Callable[[Path], Any]:
    def read(folder: Path) -> Any:
        from attangent.stages import read_metrics

        return read_metrics(folder / name)

    return read


def _audit_run(folder: Path) -> Path:
    import shutil

    shutil.copytree(instances.audit_run(), folder, dirs_exist_ok=True)
    return next(folder.glob("findings/*.json"))


def _load_audit(folder: Path) -> Any:
    from attangent.audit import load

    return len(load(folder).frame())


def _training_rows(folder: Path) -> Path:
    (folder / "rows.jsonl").write_bytes(rows().read_bytes())
    return folder / "rows.jsonl"


def _read_rows(folder: Path) -> Any:
    from attangent.tuning.data.records import read_records

    return len(list(read_records(folder / "rows.jsonl")))


READERS = [
    Reader("adapter settings", _adapter("adapter_config.json"), _load_adapter),
    Reader("adapter weights", _adapter("adapter_model.safetensors"), _load_adapter),
    Reader("state", _state, _load_state),
    Reader("table for frames", _table("table.csv"), _read_frame),
    Reader("series", _table("series.csv"), _read_series("series.csv")),
    Reader("packed series", _table("series.csv.gz"), _read_series("series.csv.gz")),
    Reader("metrics", _metrics, _read_metrics("metrics.csv")),
    Reader("trainer state", _trainer_state, _read_metrics("trainer_state.json")),
    Reader("finding", _audit_run, _load_audit),
    Reader("rows to train on", _training_rows, _read_rows),
    Reader("tuned model", runs.of_tuned("model/tuned.json"), runs.load_tuned),
    Reader("tuned weights", runs.of_tuned("model/model.safetensors"), runs.load_tuned),
    Reader("model settings", runs.of_tuned("model/config.json"), runs.load_tuned),
    Reader("tokenizer", runs.of_tuned("model/tokenizer.json"), runs.load_tuned),
    Reader("compressed prompt", runs.of_compressed("compressed_prompt.json"), runs.load_compressed),
    Reader("settings of a training", runs.of_settings, runs.read_settings),
]
