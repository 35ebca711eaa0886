"""The tests of `report/pictures.py`."""

import math
from xml.etree import ElementTree

from attangent.audit import Conclusion, Figure, Finding, Series
from attangent.audit.report.markdown import write_markdown
from attangent.audit.report.pictures import standalone, write_pictures
from attangent.audit.results import Run
from attangent.audit.storing.record import Origin, Record

FIGURE = Figure("Loss <b> & more", "step", "loss", (Series.of("a < b", [1, 2, 3], [3.0, 2.0, 1.0]),))
EMPTY = Figure("Nothing", "step", "loss", (Series.of("none", [1.0], [math.nan]),))


def make_run(tmp_path, **figures):
    records = tuple(
        Record(
            Origin(f"P2/{name.replace('_', '-')}", "Title", "Section 1", "s", "quick", {}, 0, "c"),
            Finding((Conclusion("kept", "<=", 1.0, 0.5),), figures=shown),
            0.1,
            {},
        )
        for name, shown in figures.items()
    )
    return Run(tmp_path, "quick", records, (), {})


def test_a_picture_is_a_whole_svg_with_its_words():
    drawing = standalone(FIGURE, "one")
    root = ElementTree.fromstring(drawing)
    words = [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert {"Loss <b> & more", "step", "loss", "a < b"} <= set(words)


def test_colours_that_a_plot_uses_are_defined_in_the_file():
    drawing = standalone(FIGURE, "one")
    assert "var(--series-0)" in drawing
    assert "--series-0: #" in drawing


def test_what_cannot_be_drawn_has_no_file(tmp_path):
    assert standalone(EMPTY, "none") is None
    assert write_pictures(make_run(tmp_path, figure_1=(EMPTY,)), tmp_path / "pictures") == []


def test_the_first_figures_of_experiments_are_written_and_shown(tmp_path):
    run = make_run(tmp_path, figure_1=(FIGURE, FIGURE, FIGURE), lemma_2=(FIGURE,))
    pictures = write_pictures(run, tmp_path / "pictures")
    assert [picture.path.name for picture in pictures] == ["P2--figure-1-1.svg", "P2--figure-1-2.svg"]
    page = write_markdown(run, tmp_path / "page.md", pictures=pictures).read_text()
    assert "![P2/figure-1](pictures/P2--figure-1-1.svg)" in page
    assert "Loss \\<b\\> \\& more" in page
    assert "Figures of the experiments" not in write_markdown(run, tmp_path / "bare.md").read_text()
