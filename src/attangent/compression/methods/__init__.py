"""The ways to compress a prompt, one file each; a new one is added to the list below."""

from attangent._core.errors import AttangentError
from attangent.compression.methods.anchors import AnchorsMethod
from attangent.compression.methods.base import CompressionMethod
from attangent.compression.methods.merge import MergeMethod
from attangent.compression.methods.plain import PlainMethod
from attangent.compression.methods.recall import RecallMethod
from attangent.compression.methods.select import SelectMethod
from attangent.papers.p1_prefix.elu_state import EluMethod

_ALL = (RecallMethod(), AnchorsMethod(), PlainMethod(), SelectMethod(), MergeMethod(), EluMethod())
METHODS: dict[str, CompressionMethod] = {method.name: method for method in _ALL}
DEFAULT = RecallMethod.name


def method_named(name: str) -> CompressionMethod:
    """The method of this name; an unknown one is refused."""
    if name not in METHODS:
        raise AttangentError(f"method is {name!r}, expected one of {', '.join(METHODS)}")
    return METHODS[name]


def check_method(method: str, distill: int = 0) -> None:
    """Refuse an unknown method, and one that cannot be distilled where that is asked."""
    known = method_named(method)
    if distill:
        known.check_distillable()
