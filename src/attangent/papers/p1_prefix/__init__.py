"""P1: NTK-Attention and the kernel theory of long prefixes."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.papers.p1_prefix.network import (
        Guarantee,
        concentration_bound,
        prefix_guarantee,
        require_unit_ball,
    )

__all__ = ["Guarantee", "concentration_bound", "prefix_guarantee", "require_unit_ball"]

__getattr__, __dir__ = lazy_names(__name__, dict.fromkeys(__all__, "network"))
