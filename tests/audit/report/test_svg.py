from xml.etree import ElementTree

from attangent.audit.report.svg import inline

SVG = b"""<?xml version="1.0" encoding="utf-8" standalone="no"?>
<svg xmlns:xlink="http://www.w3.org/1999/xlink" width="10pt" viewBox="0 0 10 10"
     xmlns="http://www.w3.org/2000/svg" version="1.1">
 <metadata>when and by whom</metadata>
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="figure_1">
  <defs><path id="mark" d="M 0 0.123456 L -1.5 2.999999"/></defs>
  <use xlink:href="#mark" x="1.000001" style="stroke: #010101; stroke-width: 0.6"/>
  <path d="M 0 0" clip-path="url(#clip)" style="fill: #ffffff; stroke: #010101"/>
  <text style="font: 10px 'DejaVu Sans'; text-anchor: middle" x="1"
        transform="rotate(-0 1 2)">a &lt;b&gt; #010101 id="x"</text>
 </g>
</svg>"""


def drawing(prefix: str = "p") -> ElementTree.Element:
    return ElementTree.fromstring(inline(SVG, prefix, {"#010101": "var(--axis)"}))


def test_nothing_is_left_that_could_reach_beyond_the_drawing():
    root = drawing()
    assert {element.tag for element in root.iter()} == {"svg", "defs", "g", "path", "use", "text"}
    assert root.attrib == {"viewBox": "0 0 10 10", "class": "plot", "aria-hidden": "true"}


def test_ids_and_what_refers_to_them_carry_the_prefix():
    root = drawing("figure7")
    assert [element.get("id") for element in root.iter() if element.get("id")] == ["figure7-mark"]
    assert [element.get("href") for element in root.iter("use")] == ["#figure7-mark"]
    assert root.findall(".//g/path")[0].get("clip-path") == "url(#figure7-clip)"


def test_colours_are_translated_in_styles_alone():
    root = drawing()
    assert [element.get("style") for element in root.iter("use")] == ["stroke: var(--axis);stroke-width: 0.6"]
    assert root.findall(".//g/path")[0].get("style") == "fill: #ffffff;stroke: var(--axis)"
    assert root.findall(".//text")[0].text == 'a <b> #010101 id="x"'


def test_text_has_no_font_of_its_own_and_numbers_are_short():
    root = drawing()
    text = root.findall(".//text")[0]
    assert text.attrib == {"style": "text-anchor: middle", "x": "1"}
    assert root.findall(".//defs/path")[0].get("d") == "M 0 0.12 L -1.5 3"
    assert root.findall(".//use")[0].get("x") == "1"
