"""In a notebook, texts are shown as they are, and the progress line is overwritten."""

from __future__ import annotations

import io

import torch

import ftm_lazy
from ftm_lazy.compile import worker


def test_texts_have_an_html_form() -> None:
    y = torch.ones(2).to("ftm") + 1
    for text in (ftm_lazy.debug.text(y, "trace"), ftm_lazy.metrics.report()):
        assert isinstance(text, str) and text._repr_html_().startswith("<pre")
    assert "aten::add" in ftm_lazy.debug.text(y, "trace")._repr_html_()
    shown = ftm_lazy.debug.profile(y)._repr_html_()
    assert "add_0" in shown and shown.endswith("</pre>")


def test_the_progress_line_is_shown_where_it_can_be_overwritten() -> None:
    stream = type("OutStream", (io.StringIO,), {"__module__": "ipykernel.iostream"})
    assert worker._overwrites_lines(stream())
    assert not worker._overwrites_lines(io.StringIO()) and not worker._overwrites_lines(None)
