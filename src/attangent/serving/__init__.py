"""Serve a model, compressed prompts and tuned adapters over OpenAI's API, with a page to try them."""

from typing import TYPE_CHECKING

from attangent._core.lazy import lazy_names

if TYPE_CHECKING:
    from attangent.serving.app import create_app
    from attangent.serving.server import build_service, serve
    from attangent.serving.settings import ServeSettings

__all__ = ["ServeSettings", "build_service", "create_app", "serve"]

__getattr__, __dir__ = lazy_names(
    __name__,
    {"ServeSettings": "settings", "build_service": "server", "create_app": "app", "serve": "server"},
)
