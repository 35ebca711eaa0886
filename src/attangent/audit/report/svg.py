"""The SVG that matplotlib writes, made fit to stand inside a page beside others."""

import re
from collections.abc import Mapping
from xml.etree import ElementTree

_GEOMETRY = ("d", "transform", "x", "y")


def inline(svg: bytes, prefix: str, colours: Mapping[str, str]) -> str:
    """The drawing alone: no metadata and no style sheet, every id under `prefix`, colours translated.

    It carries no font, so that the page's own is used, and coordinates to a hundredth of a point.
    """
    root = ElementTree.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if _name(child.tag) in ("metadata", "style"):
                parent.remove(child)
    for element in root.iter():
        _shorten(element)
        for key in list(element.keys()):
            element.set(key, _attribute(key, element.attrib[key], prefix, colours))
    root.attrib = {"viewBox": root.get("viewBox", ""), "class": "plot", "aria-hidden": "true"}
    return ElementTree.tostring(root, encoding="unicode")


def _shorten(element: ElementTree.Element) -> None:
    """Plain names, and nothing that draws nothing: ids of groups, rotation by 0, white space."""
    element.tag = _name(element.tag)
    element.attrib = {_name(key): value for key, value in element.items()}
    if element.tag == "g":
        element.attrib.pop("id", None)
    if element.get("transform", "").startswith("rotate(-0 "):
        element.attrib.pop("transform")
    if element.tag != "text":
        element.text = None
    element.tail = None


def _name(qualified: str) -> str:
    return qualified.rpartition("}")[2]


def _attribute(key: str, value: str, prefix: str, colours: Mapping[str, str]) -> str:
    if key == "id":
        return f"{prefix}-{value}"
    if key == "href":
        return f"#{prefix}-{value.removeprefix('#')}"
    if key == "clip-path":
        return value.replace("#", f"#{prefix}-")
    if key == "style":
        kept = ";".join(part.strip() for part in value.split(";") if not part.strip().startswith("font"))
        return re.sub(r"#[0-9a-f]{6}", lambda colour: colours.get(colour[0], colour[0]), kept)
    if key in _GEOMETRY:
        return re.sub(r"-?\d+\.\d+", lambda number: f"{round(float(number[0]), 2):g}", value)
    return value
