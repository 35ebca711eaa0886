"""Compiled for GPUs that are not here: no register spills, and every matrix product on tensor cores."""

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("triton", reason="pip install 'attangent[gpu]'")

_SCRIPT = """
import json, torch
from benchmarks.suites.attention.gpu_binaries import cases, compile_case
chosen = [
    case
    for case in cases()
    if case.head == 128
    and case.dtype == torch.bfloat16
    and case.prefix == {"feature_prefix_gradient_kernel": "learned-elu", "key_gradient_kernel": "none"}.get(
        case.kernel, "tokens"
    )
]
binaries = [compile_case(c, t) for c in chosen for t in ("sm_80", "sm_90", "sm_100", "gfx942")]
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
    assert len(binaries) == 24
    assert [binary for binary in binaries if binary[2] > 0] == []
    assert [binary for binary in binaries if binary[3] < binary[4]] == []
