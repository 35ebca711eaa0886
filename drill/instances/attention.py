"""Feature maps and states of prefixes."""

from collections.abc import Callable
from typing import Any

import torch


def anchored_state() -> Any:
    from attangent.attention import PrefixState

    return PrefixState.zero(INSTANCES["Anchors"](), heads=2)


def _elu() -> Any:
    from attangent.attention.features import Elu

    return Elu(4)


def _state() -> Any:
    from attangent.attention import PrefixState

    return PrefixState.zero(_elu(), heads=2)


def _ragged() -> Any:
    from attangent.attention import RaggedState

    keys = [torch.ones(2, 4), torch.ones(3, 4)]
    return RaggedState.of(keys, keys, [torch.ones(2), torch.ones(3)])


def _ragged_tokens() -> Any:
    from attangent.attention import RaggedTokens

    keys = [torch.ones(2, 4), torch.ones(3, 4)]
    return RaggedTokens.of(keys, keys, [torch.ones(2), torch.ones(3)])


def _features(name: str) -> Callable[[], Any]:
    def build() -> Any:
        from attangent.attention import features as room

        makers = {
            "Anchors": lambda: room.Anchors(torch.ones(2, 5, 4)),
            "Calibrated": lambda: room.Calibrated(
                room.Elu(4), torch.zeros(2, 4), torch.ones(2), torch.zeros(2)
            ),
            "Learned": lambda: room.Learned.draw(4, 6, 0),
            "PositiveRandom": lambda: room.PositiveRandom(4, 6),
            "Printed": lambda: room.Printed(4),
            "Taylor": lambda: room.Taylor(4, 2),
        }
        return makers[name]()

    return build


INSTANCES: dict[str, Callable[[], Any]] = {
    "FeatureMap": _elu,
    "Elu": _elu,
    **{n: _features(n) for n in ("Anchors", "Calibrated", "Learned", "PositiveRandom", "Printed", "Taylor")},
    "Prefix": _state,
    "PrefixState": _state,
    "RaggedState": _ragged,
    "RaggedTokens": _ragged_tokens,
}
