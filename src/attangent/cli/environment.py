"""What is installed here and what it gives: the facts behind `attangent doctor`."""

import os
import platform
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

from attangent._core.cores import available_cores, container_quota, threads_for
from attangent._version import __version__

EXTRAS = {
    "adapters": (
        ("transformers", "peft", "accelerate", "datasets"),
        "tune, compress, claims on language models",
    ),
    "cluster": (("distributed",), "audits and kernels on a Dask cluster (--dask)"),
    "forecast": (("holidays", "pyarrow"), "holidays and Parquet files in forecasts"),
    "logs": (("tensorboard",), "stages of TensorBoard's events"),
    "quantised": (("torchao",), "tune --quantised int8"),
}
_BROUGHT_ALONG = {"huggingface_hub": "adapters", "tokenizers": "adapters"}
_ALWAYS = ("torch", "numpy", "scipy", "scikit-learn", "pandas", "matplotlib")


@dataclass(frozen=True)
class Fact:
    """One line: what was looked at, what was found, and what to do where something is missing."""

    name: str
    found: str
    fine: bool = True
    advice: str = ""


def examine() -> list[Fact]:
    """Everything a user may want to know before asking why something is slow, missing or refused."""
    return [
        Fact("attangent", __version__),
        Fact("python", f"{platform.python_version()} on {platform.system()} {platform.machine()}"),
        *(Fact(name, _installed(name) or "missing", _installed(name) is not None) for name in _ALWAYS),
        *(_extra(name) for name in EXTRAS),
        *_threads(),
        _compiled(),
        _data(),
    ]


def extra_with(package: str) -> str | None:
    """The extra that brings a package, None where no extra does."""
    found = [name for name, (packages, _) in EXTRAS.items() if package in packages]
    return found[0] if found else _BROUGHT_ALONG.get(package)


def _installed(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _extra(name: str) -> Fact:
    packages, gives = EXTRAS[name]
    missing = [package for package in packages if _installed(package) is None]
    found = ", ".join(f"{package} {_installed(package)}" for package in packages if package not in missing)
    advice = f"pip install 'attangent[{name}]' gives {gives}" if missing else ""
    return Fact(f"extra {name}", found or "not installed", not missing, advice)


def _threads() -> list[Fact]:
    import torch

    cores, quota, threads = available_cores(), container_quota(), torch.get_num_threads()
    limit = "" if quota is None else f", the container allows {quota:g}"
    advice = f"set OMP_NUM_THREADS={cores}: more threads than cores wait for each other"
    devices = "cpu" if not torch.cuda.is_available() else f"cpu, {torch.cuda.device_count()} x cuda"
    return [
        Fact("cores", f"{cores} of {os.cpu_count()}{limit}"),
        Fact("threads", f"{threads} for torch", threads <= cores, "" if threads <= cores else advice),
        Fact("workers", f"up to {cores} of an audit, {threads_for(cores)} thread each"),
        Fact("devices", devices),
    ]


def _compiled() -> Fact:
    from attangent.attention.backends.cpu.prepare import trusted
    from attangent.attention.backends.decode.native import library

    missing = [name for name, code in (("decoding", library()), ("attention", trusted())) if code is None]
    if not missing:
        return Fact("compiled code", "loaded")
    advice = "install a C compiler and attangent again: it gets faster behind a prefix, nothing else changes"
    return Fact("compiled code", f"none for {' and '.join(missing)}, torch does its work", False, advice)


def _data() -> Fact:
    from attangent.data import all_sets, folders, look

    places = folders()
    missing = [str(place) for place in places if not place.is_dir()]
    if missing:
        return Fact("data", f"{missing[0]} is no folder", False, "attangent data path shows who names it")
    here = [one.name for one in all_sets() if all(state.fine for state in look(one))]
    if here:
        return Fact("data", f"{', '.join(here)} in {', '.join(map(str, places))}")
    found = f"no data set in {places[0]}" if places else "the samples that come along"
    return Fact("data", found, False, "attangent data list says what others give and where they are from")
