"""Compiled for GPUs that are not here: no register spills, and every matrix product on tensor cores.

`make gpu-check` compiles every kernel for every target; here every kernel meets one of them, and all makes
and generations but the last are met.
"""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="pip install 'attangent[gpu]'")

TARGETS = {
    ("forward_kernel", "tokens"): "sm_80",
    ("decode_kernel", "tokens"): "gfx942",
    ("query_gradient_kernel", "tokens"): "sm_90",
    ("key_gradient_kernel", "none"): "sm_100",
    ("token_prefix_gradient_kernel", "tokens"): "gfx942",
    ("feature_prefix_gradient_kernel", "learned-elu"): "sm_100",
}
_SCRIPT = f"""
import json, torch
from benchmarks.suites.attention.gpu_binaries import Case, compile_case
chosen = {TARGETS}.items()
binaries = [compile_case(Case(k, torch.bfloat16, 128, prefix), target) for (k, prefix), target in chosen]
rows = [[str(b.case), b.target, b.spilled, b.matrix_instructions, b.matrix_products] for b in binaries]
print(json.dumps(rows))
"""


def test_no_kernel_spills_and_all_products_use_tensor_cores(tmp_path):
    environment = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path), "PYTHONWARNINGS": "ignore"}
    environment.pop("TRITON_INTERPRET", None)
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    binaries = json.loads(done.stdout.splitlines()[-1])
    assert len(binaries) == len(TARGETS)
    assert [binary for binary in binaries if binary[2] > 0] == []
    assert [binary for binary in binaries if binary[3] < binary[4]] == []
