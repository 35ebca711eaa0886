"""Short texts and escaped tables."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from attangent._core.display import Toned, brief, brief_fields, facts_html, table_html
from attangent.audit import Figure, Series


@given(st.text(max_size=40))
def test_whatever_a_cell_holds_cannot_leave_it(text):
    bare = table_html("t", ["a"], [["x"]], ["n"])
    shown = table_html(text, [text], [[text], [Toned(text, "good")]], [text])
    for mark in ("<script", "<img", "onerror="):
        hostile = table_html("t", ["a"], [[f"{mark} src=x>"]])
        assert mark not in hostile.replace("&lt;", "\0") or mark == "onerror="
    assert shown.count("<td") == 2
    assert shown.count("<th") == bare.count("<th")


def test_markup_is_text():
    shown = facts_html("<b>", {"<i>": "<script>alert(1)</script>"}, ["a & b"])
    assert "<script>" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in shown
    assert "a &amp; b" in shown


def test_rows_beyond_the_most_are_counted():
    shown = table_html("t", ["n"], [[n] for n in range(50)])
    assert shown.count("<tr>") == 41
    assert "10 more rows" in shown


def test_briefs_are_short_however_much_there_is():
    long = Series.of("curve", range(5000), range(5000))
    figure = Figure("t", "x", "y", (long,) * 9)
    assert len(brief_fields(figure)) < 200
    shown = brief(figure, many=list(range(99)), tensor=torch.ones(3, 4), text="a" * 999, x=np.float32(0.5))
    assert shown.startswith("Figure(many=<99 items>, tensor=Tensor(3, 4), text='aaa")
    assert shown.endswith("x=0.5)")
