"""Every weight trained."""

from typing import TYPE_CHECKING, Any

from attangent.tuning.methods.technique import Site, WholeModel

if TYPE_CHECKING:
    from attangent.tuning.methods.settings import Method


class Full(WholeModel):
    name = "full"

    def default_rate(self, method: "Method") -> float:
        return 5e-5

    def apply(self, model: Any, method: "Method", site: Site) -> Any:
        return self.added(model, method, site)

    def added(self, model: Any, method: "Method", site: Site) -> Any:
        return model.requires_grad_(True)
