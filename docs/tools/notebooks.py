"""Run the tutorials at real size and write each as a notebook and as a page of the site.

    python docs/tools/notebooks.py [--pages] [NAME ...]

The source is docs/tutorials/NAME.py, with cells between `# %%` lines. The script writes NAME.ipynb with its
outputs, NAME.md and the pictures in NAME_files/. It needs the models of `scripts/install-models --all`,
and uses ATTANGENT_DATA if it is set. Pages leave out progress bars and warnings (stderr). With --pages
nothing runs: text comes from the source and outputs from the notebook; changed code is an error.
"""

import os
import re
import sys
import tempfile
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from nbconvert import MarkdownExporter

from benchmarks.suites.compression.bench_compress import smollm2_folder
from benchmarks.suites.tuning.data import minilm

FOLDER = Path(__file__).parents[1] / "tutorials"
NAMES = (
    "compress_a_handbook",
    "tune_a_classifier",
    "forecast_a_thousand_series",
    "syntax_before_semantics",
    "audit_a_theorem",
)
STYLE = "figure.dpi: 120\nsavefig.dpi: 120\nsvg.hashsalt: attangent\n"
SECONDS = 900
NOT_RUN = "**Its outputs are not here yet:** the code below has been run by the tests in small only."
PLAIN = {' border="1" class="dataframe"': "", ' style="text-align: right;"': "", "![png]": "![Figure]"}
STYLED = re.compile(r"<div>\s*<style scoped>.*?</style>\s*(<table.*?</table>)\s*</div>", re.DOTALL)


def executed(name: str) -> nbformat.NotebookNode:
    """Return the notebook with the outputs of every cell, run in an empty folder next to the data."""
    notebook = jupytext.read(FOLDER / f"{name}.py")
    notebook.metadata = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    os.environ |= {
        "TUTORIAL_CHAT_MODEL": str(smollm2_folder().resolve()),
        "TUTORIAL_ENCODER": minilm(),
        "TRANSFORMERS_VERBOSITY": "error",
        "PYTHONWARNINGS": "ignore",
    }
    with tempfile.TemporaryDirectory() as place:
        Path(place, "data").symlink_to(FOLDER / "data")
        Path(place, "matplotlibrc").write_text(STYLE)
        NotebookClient(
            notebook, timeout=SECONDS, record_timing=False, resources={"metadata": {"path": place}}
        ).execute()
    for number, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{number}"
        if cell.cell_type == "code":
            cell.outputs = [out for out in cell.outputs if out.get("name") != "stderr"]
    return notebook


def with_kept_outputs(name: str) -> nbformat.NotebookNode:
    """The words of the source with the outputs of the notebook that is there."""
    kept = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    notebook = jupytext.read(FOLDER / f"{name}.py")
    if [cell.source for cell in kept.cells if cell.cell_type == "code"] != [
        cell.source for cell in notebook.cells if cell.cell_type == "code"
    ]:
        raise SystemExit(f"the code of {name} has changed: run it, without --pages")
    outputs = iter([cell for cell in kept.cells if cell.cell_type == "code"])
    for number, cell in enumerate(notebook.cells):
        if cell.cell_type == "code":
            notebook.cells[number] = next(outputs)
        notebook.cells[number]["id"] = f"cell-{number}"
    notebook.metadata = kept.metadata
    return notebook


def write_page(name: str, notebook: nbformat.NotebookNode) -> None:
    """The page and its pictures; tables lose the style that notebooks give them."""
    text, more = MarkdownExporter().from_notebook_node(
        notebook, resources={"unique_key": name, "output_files_dir": f"{name}_files"}
    )
    text = re.sub(
        r"<div>\s*<style scoped>.*?</style>\s*(<table.*?</table>)\s*</div>", r"\1", text, flags=re.S
    )
    for old, new in PLAIN.items():
        text = text.replace(old, new)
    title, rest = text.lstrip().split("\n", 1)
    if not any(cell.get("outputs") for cell in notebook.cells):
        rest = f"\n{NOT_RUN}\n{rest}"
    link = f"[The same as a notebook]({name}.ipynb). Written by `python docs/tools/notebooks.py {name}`."
    (FOLDER / f"{name}.md").write_text(f"{title}\n\n{link}\n{rest.rstrip()}\n")
    for path, content in more["outputs"].items():
        place = FOLDER / path
        place.parent.mkdir(exist_ok=True)
        place.write_bytes(content)


def main(given: list[str]) -> None:
    names = [name for name in given if name != "--pages"] or NAMES
    for name in names:
        place = FOLDER / f"{name}.ipynb"
        notebook = with_kept_outputs(name) if "--pages" in given else executed(name)
        nbformat.write(notebook, place)
        write_page(name, notebook)
        print("wrote", name, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
