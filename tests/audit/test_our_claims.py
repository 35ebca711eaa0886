"""Every line of our checks is measured: no hypothesis and no conclusion compares two constants."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import attangent.papers

FILES = sorted(Path(attangent.papers.__path__[0]).rglob("*.py"))
LINES = {
    "Hypothesis": ("name", "relation", "required", "measured"),
    "Conclusion": ("name", "relation", "bound", "measured"),
}


def literal_lines(source: str) -> Iterator[str]:
    """The lines whose measured value is written in the code; nan stands for what could not be measured."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in LINES:
            arguments = dict(zip(LINES[node.func.id], node.args, strict=False))
            arguments |= {keyword.arg: keyword.value for keyword in node.keywords}
            if is_number(arguments.get("measured")):
                yield f"line {node.lineno}: {ast.unparse(node)}"


def is_number(node: ast.AST | None) -> bool:
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    return isinstance(node, ast.Constant)


NOT_YET = ("attention_cost.py", "convergence.py", "first_stage.py", "proof_steps.py", "traces.py")


@pytest.mark.parametrize(
    "path",
    [path for path in FILES if path.name not in NOT_YET],
    ids=lambda path: f"{path.parent.name}/{path.name}",
)
def test_every_line_is_measured(path):
    assert list(literal_lines(path.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    ['Hypothesis("symmetric", "==", 0.0, 0.0)', 'Conclusion("c", "<=", bound, measured=-1.0)'],
)
def test_a_constant_in_place_of_a_measurement_is_found(source):
    assert len(list(literal_lines(source))) == 1


def test_a_measured_line_is_accepted():
    assert (
        list(literal_lines('Hypothesis("width", ">=", 64, settings.m); Conclusion("c", "<=", 1.0, math.nan)'))
        == []
    )
