"""The page on attention runs as it stands."""

import re
from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "attention.md"


def test_every_block_of_the_page_runs(capsys):
    torch.manual_seed(0)
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 4
    for block in blocks:
        exec(compile(block, str(PAGE), "exec"), names)
    assert "Taylor(dim=4, size=70, order=4)" in capsys.readouterr().out
    assert names["approximate"].shape == (1, 8, 2048, 64)
