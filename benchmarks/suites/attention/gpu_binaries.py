"""Compile the Triton kernels for GPUs that need not be here, and read registers, spills and tensor cores."""

import inspect
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

TARGETS = {"sm_80": 80, "sm_90": 90, "sm_100": 100, "sm_120": 120, "gfx942": "gfx942"}
_FLOATS = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
_INTEGERS = {"START": "*i32", "LENGTH": "*i32"}
_INPUTS = ("Q", "K", "V", "DO", "OUT", "DQ", "DK", "DVALUES")
_FACTORS = ("scale", "cap", "prefix_cap", "gain")
_COUNTS = ("R",)
_TILES = {
    "forward_kernel": "forward",
    "decode_kernel": "forward",
    "query_gradient_kernel": "tokens",
    "key_gradient_kernel": "tokens",
}


class Case(NamedTuple):
    """One specialisation of a kernel."""

    kernel: str
    dtype: torch.dtype
    head: int
    prefix: str

    def __str__(self) -> str:
        return f"{self.kernel}, {_FLOATS[self.dtype]}, head {self.head}, prefix {self.prefix}"


class Binary(NamedTuple):
    """What the compiled code of one case uses."""

    case: Case
    target: str
    registers: int
    spilled: int
    """Instructions that move registers to local memory or back; on AMD, spilled registers."""
    shared_bytes: int
    matrix_instructions: int
    matrix_products: int
    """Products in the source, `tl.dot`, that the case runs."""


def cases() -> Iterator[Case]:
    """Yield every kernel with the head sizes, types and prefixes that models use."""
    from attangent.attention.backends.triton import launch

    for dtype, heads in ((torch.bfloat16, (64, 128, 256)), (torch.float32, (64,))):
        for head in heads:
            for prefix in ("tokens", "learned-elu", "elu"):
                yield Case("forward_kernel", dtype, head, prefix)
            yield Case("decode_kernel", dtype, head, "tokens")
            if launch.supports(head, head, dtype, gradients=True):
                for prefix in ("tokens", "learned-elu", "elu"):
                    yield Case("query_gradient_kernel", dtype, head, prefix)
                yield Case("key_gradient_kernel", dtype, head, "none")
                yield Case("token_prefix_gradient_kernel", dtype, head, "tokens")
                for prefix in ("learned-elu", "elu"):
                    yield Case("feature_prefix_gradient_kernel", dtype, head, prefix)


def compile_case(case: Case, target: str) -> Binary:
    """Compile one case for one target without a GPU."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from attangent.attention.backends.triton import kernels

    kernel = getattr(kernels, case.kernel)
    constants, options = _constants(case, target)
    names = list(inspect.signature(kernel.fn).parameters)
    signature = {name: "constexpr" if name in constants else _type(name, case.dtype) for name in names}
    arch = TARGETS[target]
    gpu = GPUTarget("hip", arch, 64) if target.startswith("gfx") else GPUTarget("cuda", arch, 32)
    pointers = {(i,): [["tt.divisibility", 16]] for i, name in enumerate(names) if signature[name][0] == "*"}
    source = ASTSource(kernel, signature, {(names.index(n),): v for n, v in constants.items()}, pointers)
    compiled = triton.compile(source, target=gpu, options=options)
    usage = _amd_usage(compiled) if target.startswith("gfx") else _nvidia_usage(compiled)
    return Binary(case, target, *usage[:2], compiled.metadata.shared, usage[2], _products(case))


def _type(name: str, dtype: torch.dtype) -> str:
    if name in _INTEGERS:
        return _INTEGERS[name]
    if name.isupper() and name not in _COUNTS:
        return f"*{_FLOATS[dtype]}" if name in _INPUTS else "*fp32"
    return "fp32" if name in _FACTORS else "i32"


def _constants(case: Case, target: str) -> tuple[dict[str, Any], dict[str, int]]:
    from attangent.attention.backends.triton import kernels, launch

    code, act, has_weight, has_one = launch._KINDS[case.prefix]
    blocks = launch.blocks_for(_TILES.get(case.kernel, "prefix"), case.head, case.head, case.dtype)
    narrow = case.dtype != torch.float32
    precision = "ieee" if target.startswith("gfx") else "tf32" if narrow else "tf32x3"
    D = launch.padded(case.head)
    every = {
        "D": D, "DV": D, "BLOCK_M": blocks.m, "BLOCK_N": blocks.n, "BLOCK_R": blocks.r,
        "CAUSAL": True, "HAS_BIAS": False, "SOFTCAP": False, "PREFIX": code,
        "PREFIX_SOFTCAP": False, "ACT": act, "HAS_WEIGHT": has_weight, "HAS_ONE": has_one,
        "PRECISION": precision, "PREFIX_PRECISION": precision, "GROUP": 16,
    }  # fmt: skip
    options = {"num_warps": blocks.warps, "num_stages": blocks.stages}
    if case.kernel == "decode_kernel":
        every["BLOCK_N"] = launch.decode_block(case.head, case.head)
        options = {"num_warps": 4, "num_stages": 2}
    wanted = inspect.signature(getattr(kernels, case.kernel).fn).parameters
    return {name: value for name, value in every.items() if name in wanted}, options


def _products(case: Case) -> int:
    """Lower bound on matrix products: two per forward tile loop, three and more per backward one."""
    return 2 if case.kernel in ("forward_kernel", "decode_kernel") else 3


def _nvidia_usage(compiled: Any) -> tuple[int, int, int]:
    import triton.backends.nvidia as nvidia

    tools = Path(nvidia.__file__).parent / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(compiled.asm["cubin"])
        file.flush()
        usage = _run(tools / "cuobjdump", "--dump-resource-usage", file.name)
        code = _run(tools / "nvdisasm", "-c", file.name)
    registers = int(re.search(r"REG:(\d+)", usage)[1])  # type: ignore[index]
    matrix = len(re.findall(r"\b(?:HMMA|HGMMA|UTCHMMA|UTCQMMA|QMMA|OMMA|IMMA)\b", code))
    return registers, len(re.findall(r"\b(?:STL|LDL)\b", code)), matrix


def _amd_usage(compiled: Any) -> tuple[int, int, int]:
    code = compiled.asm["amdgcn"]
    registers = int(re.search(r"\.vgpr_count:\s+(\d+)", code)[1])  # type: ignore[index]
    spilled = int(re.search(r"\.vgpr_spill_count:\s+(\d+)", code)[1])  # type: ignore[index]
    return registers, spilled, len(re.findall(r"v_mfma_", code))


def _run(*command: Any) -> str:
    return subprocess.run([str(each) for each in command], capture_output=True, text=True, check=True).stdout
