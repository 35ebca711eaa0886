"""Editing the spectrum of a model's attention: keep some singular values, see what is lost, put them back."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor, nn

from attangent._core.errors import AttangentError
from attangent._core.files import write_json
from attangent.papers.p3_two_stage.low_rank import smaller_as_factors, write_low_rank
from attangent.stages.spectra.singular_values import Change, Matrix, Spectral, spectral_parts

Keep = Literal["largest", "smallest", "drop_largest"]
REPORT_FILE = "spectrum_edit.json"


@dataclass(frozen=True)
class Selection:
    """Which singular values stay: the largest or the smallest k, or all but the largest k.

    `rho` gives k as a share of all n values, round(rho n), at least 1.
    """

    keep: Keep
    rho: float | None = None
    k: int | None = None

    def __post_init__(self) -> None:
        if self.keep not in get_args(Keep):
            raise AttangentError(f"keep is {self.keep!r}, expected one of {', '.join(get_args(Keep))}")
        if (self.rho is None) == (self.k is None):
            raise AttangentError(f"rho is {self.rho} and k is {self.k}, expected exactly one of them")
        if self.rho is not None and not 0 < self.rho <= 1:
            raise AttangentError(f"rho is {self.rho}, expected a share above 0 and at most 1")
        if self.k is not None and self.k < 1:
            raise AttangentError(f"k is {self.k}, expected at least 1")

    def mask(self, n: int) -> Tensor:
        """(n) which of n values, largest first, stay."""
        count = self.k if self.k is not None else max(1, round((self.rho or 0.0) * n))
        place = torch.arange(n)
        if self.keep == "largest":
            return place < count
        return place >= (n - count if self.keep == "smallest" else count)

    @property
    def keeps_all(self) -> bool:
        """Whether the whole spectrum was asked for, by name."""
        return self.rho == 1 and self.keep != "drop_largest"


@dataclass(frozen=True)
class EditReport:
    """What an edit changed: `frame` has one row a matrix (or head, for qk), `spectra` one a singular value.

    Columns of `frame`: layer, module, target, head, values, kept, norm_before, norm_after, change (Frobenius
    norm of the difference), relative_change. Columns of `spectra`: layer, target, head, index, value, kept.
    """

    frame: pd.DataFrame
    spectra: pd.DataFrame = field(repr=False)

    def by_layer(self) -> pd.DataFrame:
        """Norms of all edited matrices of a layer together."""
        layers = self.frame.groupby("layer")
        frame = pd.DataFrame(
            {name: layers[name].agg(np.linalg.norm) for name in ("norm_before", "norm_after", "change")}
        )
        return frame.assign(relative_change=frame["change"] / frame["norm_before"])


class SpectrumEdit:
    """An edit that is ready to be made; see `edit_spectrum`."""

    def __init__(
        self, model: nn.Module, selection: Selection, targets: Iterable[str], layers: Iterable[int] | None
    ):
        self.model, self.selection = model, selection
        self._parts = spectral_parts(model, targets, layers)
        named = {part.target for part in self._parts}
        if "qk" in named and named & {"q", "k"}:
            raise AttangentError(
                "targets name qk beside q or k: the product holds both, edit one or the other"
            )
        self._originals: list[tuple[Tensor, Tensor]] | None = None

    def __enter__(self) -> EditReport:
        if self._originals is not None:
            raise AttangentError("this edit is in force already: leave its context before entering it again")
        self._originals = self._copies()
        try:
            return self._write()
        except BaseException:
            self._restore()
            raise

    def __exit__(self, *exception: object) -> None:
        self._restore()

    def apply(self) -> EditReport:
        """Edit the model for good."""
        report = self.__enter__()
        self._originals = None
        return report

    def save(self, folder: str | Path, tokenizer: Any = None) -> EditReport:
        """Write the edited model, the report and the tokenizer to `folder`, for any reader of transformers.

        The model in memory stays as it is. Where no tokenizer is given, that of the folder which the model
        came from is taken. The copy is of full size: `save_factors` writes a smaller one.
        """
        self._check_savable()
        with self as report:
            self.model.save_pretrained(folder)  # type: ignore[operator]
        self._save_beside(Path(folder), tokenizer, report)
        return report

    def save_factors(self, folder: str | Path, tokenizer: Any = None) -> EditReport:
        """As `save`, with every matrix whose few values take less room as two factors written so.

        `load_low_rank(folder)` reads it, and so does transformers with trust_remote_code=True: a class of
        its own, in the folder, says which modules are factors. Matrices that share a module with others, as
        GPT-2's q, k and v do, and products qk are written whole.
        """
        self._check_savable()
        ranks = self._ranks()
        if not ranks:
            raise AttangentError(
                f"no matrix of the edit {self._asked} is smaller as factors: keep fewer values, or save() it"
            )
        with self as report:
            write_low_rank(self.model, ranks, Path(folder))
        self._save_beside(Path(folder), tokenizer, report)
        return report

    def _ranks(self) -> dict[str, int]:
        """Modules that are smaller as factors, with the number of values they keep."""
        names = {id(module): name for name, module in self.model.named_modules()}
        found = {}
        for part in self._parts:
            kept = int(self.selection.mask(part.count).sum())
            if isinstance(part, Matrix) and part.is_whole and smaller_as_factors(part.tensors[0], kept):
                found[names[id(part.projection.module)]] = kept
        return found

    def _check_savable(self) -> None:
        if not hasattr(self.model, "save_pretrained"):
            raise AttangentError(
                f"{type(self.model).__name__} has no save_pretrained: apply() the edit and save its weights"
            )

    def _save_beside(self, folder: Path, tokenizer: Any, report: EditReport) -> None:
        tokenizer = tokenizer if tokenizer is not None else _own_tokenizer(self.model)
        if tokenizer is not None:
            tokenizer.save_pretrained(folder)
        rows = report.frame.astype(object).where(report.frame.notna(), None).to_dict(orient="records")
        write_json(folder / REPORT_FILE, {"edit": self._asked, "changes": rows})

    @property
    def _asked(self) -> dict[str, object]:
        return {"keep": self.selection.keep, "rho": self.selection.rho, "k": self.selection.k}

    def _copies(self) -> list[tuple[Tensor, Tensor]]:
        tensors = {id(tensor): tensor for part in self._parts for tensor in part.tensors}
        return [(tensor, tensor.detach().clone()) for tensor in tensors.values()]

    @torch.no_grad()
    def _restore(self) -> None:
        for tensor, original in self._originals or ():
            tensor.copy_(original)
        self._originals = None

    @torch.no_grad()
    def _write(self) -> EditReport:
        kept = [self.selection.mask(part.count) for part in self._parts]
        made = [(part, mask, part.keep(mask)) for part, mask in zip(self._parts, kept, strict=True)]
        if not self.selection.keeps_all and not any(_changed(*edited) for edited in made):
            raise AttangentError(
                f"the edit {self._asked} changed nothing beyond rounding: all {len(made)} matrices have only "
                "what it keeps; keep fewer values, or ask for rho=1 to keep all"
            )
        return _report(made)


def edit_spectrum(
    model: nn.Module,
    keep: Keep,
    rho: float | None = None,
    k: int | None = None,
    targets: Iterable[str] = ("q", "k", "v", "o"),
    layers: Iterable[int] | None = None,
) -> SpectrumEdit:
    """Keep only some singular values of the attention weights of a Hugging Face model (P3 Section 5).

    keep: "largest" or "smallest" keeps so many, "drop_largest" drops so many; rho: how many, as a share of
    all; k: or as a number; targets: some of "q", "k", "v", "o" (matrices; biases stay) or "qk" (the product
    of query and key weights, with their biases, head by head), "mlp" (the linear modules of a layer outside
    attention), or the ending of modules' names ("mlp.down_proj"); layers: numbers from 0, None for all.

        with edit_spectrum(model, keep="largest", rho=0.1) as report:
            ...                                 # the model is edited; report says how far
                                                # here it is, bit for bit, what it was
        edit_spectrum(model, "largest", k=8).apply()          # for good
        edit_spectrum(model, "largest", k=8).save(folder)     # an edited copy on disk
        edit_spectrum(model, "largest", k=8).save_factors(folder)     # a smaller one

    An edit that changes nothing raises, unless rho=1 asks for the whole spectrum.
    """
    return SpectrumEdit(model, Selection(keep, rho, k), targets, layers)


def _own_tokenizer(model: Any) -> Any:
    """The tokenizer in the folder that the model was loaded from, where there is one; nothing is fetched."""
    folder = Path(str(getattr(model, "name_or_path", "") or ""))
    if not folder.name or not (folder / "tokenizer_config.json").is_file():
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)


def _changed(part: Spectral, kept: Tensor, change: Change) -> bool:
    """Whether what was taken away is more than the rounding of the weights."""
    rounding = torch.finfo(part.tensors[0].dtype).eps
    return change.values[~kept].norm().item() > rounding * change.values.norm().item()


def _report(made: list[tuple[Spectral, Tensor, Change]]) -> EditReport:
    frame = pd.DataFrame(
        [
            {
                **_place(part),
                "module": part.module,
                "values": len(kept),
                "kept": int(kept.sum()),
                "norm_before": change.norm_before,
                "norm_after": change.norm_after,
                "change": change.difference,
                "relative_change": change.difference / change.norm_before if change.norm_before else 0.0,
            }
            for part, kept, change in made
        ]
    ).astype({"head": "Int64"})
    spectra = [
        {**_place(part), "index": index, "value": value, "kept": stays}
        for part, kept, change in made
        for index, (value, stays) in enumerate(zip(change.values.tolist(), kept.tolist(), strict=True))
    ]
    return EditReport(frame, pd.DataFrame(spectra).astype({"head": "Int64"}))


def _place(part: Spectral) -> dict[str, object]:
    return {"layer": part.layer, "target": part.target, "head": part.head}
