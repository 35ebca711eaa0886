"""Compress a long prompt into a small prefix that still answers."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.compression.entry import compress, compress_to_folder
    from attangent.compression.methods import METHODS, method_named
    from attangent.compression.methods.base import CompressionMethod
    from attangent.compression.report import Report
    from attangent.compression.request import CompressionRequest
    from attangent.compression.result import CompressedPrompt, load_compressed
    from attangent.compression.session import ChatSession

__all__ = [
    "METHODS",
    "ChatSession",
    "CompressedPrompt",
    "CompressionMethod",
    "CompressionRequest",
    "Report",
    "compress",
    "compress_to_folder",
    "load_compressed",
    "method_named",
]

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "METHODS": "methods",
        "ChatSession": "session",
        "CompressedPrompt": "result",
        "CompressionMethod": "methods.base",
        "CompressionRequest": "request",
        "Report": "report",
        "compress": "entry",
        "compress_to_folder": "entry",
        "load_compressed": "result",
        "method_named": "methods",
    },
)
