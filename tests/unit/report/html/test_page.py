"""The page as text: whole, self-contained, and nothing of a report becomes markup or script."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from dataclasses import replace
from html import unescape
from importlib.resources import files
from pathlib import Path

import pytest

from support.pictures import Pictured, chain, large, picture_report
from support.reports import proved, refuted, unknown, vacuous
from tantamount.answers import Answer
from tantamount.ir.graph import Source
from tantamount.report.html.page import as_json_in_html, page
from tantamount.verdict import Assumption, Mismatch, Relation, Report

HOSTILE = "</script><script>pwned=1</script><img src=x onerror=pwned=1>&amp;\"'{{7*7}}\u2028\u202e\x1b"


@pytest.mark.parametrize("report", [proved(), refuted(), unknown(), vacuous(), large(40, True)])
def test_every_verdict_has_a_page(report: Report) -> None:
    picture = report.picture() if isinstance(report, Answer) else None
    text = page(report, picture)
    assert text.startswith("<!doctype html>")
    assert f'<span class="verdict">{report.verdict.value}</span>' in text
    assert ('id="scene"' in text) is (picture is not None)


def test_what_a_refuted_page_says() -> None:
    report = refuted()
    assert report.mismatch is not None
    report = replace(
        report, mismatch=replace(report.mismatch, headline="The mean is twice too large", hint="divide by 2")
    )
    text = unescape(re.sub(r"<[^>]+>", " ", page(report).partition("</style>")[2]))
    words = " ".join(text.split())
    assert "The mean is twice too large a factor: 2x too large (sum of two means) Hint divide by 2" in words
    assert "mean = aten.mean.default spec.py:7 in forward loss = y.mean() 1/ 8 SUM y" in words
    assert "add_3 = aten.add.Tensor on rank 1 impl.py:40 1/ 4 SUM y" in words
    assert "loss specification 0.5 rank 1 1" in words
    assert "2 of 19 outputs checked" in words
    assert "120 in the specification, 150 on 2 ranks folded into mesh axes" in words


def test_without_a_headline_the_difference_is_one() -> None:
    text = page(refuted())
    assert "<h1>a factor: 2x too large</h1>" in text
    assert '<p class="difference">(sum of two means)</p>' in text


def test_what_the_headline_says_is_not_said_again() -> None:
    report = refuted()
    assert report.mismatch is not None
    mismatch = replace(
        report.mismatch,
        headline="mm_1 takes the specification's x[0:4] where the specification's x[4:8] is needed",
        difference="mm_1 has the specification's x[0:4], the specification's x[4:8] is needed\n"
        "mm_1 is twice mm_1\nmm_1 reads w[0:2]",
    )
    text = unescape(page(replace(report, mismatch=mismatch)))
    assert re.findall(r'<p class="difference">(.*?)</p>', text) == ["mm_1 is twice mm_1", "mm_1 reads w[0:2]"]


def test_concatenations_have_an_operand_on_each_line() -> None:
    operands = [f"rank({rank})[0:4]" for rank in range(4)]
    first, second = proved().outputs[0], Relation("output", f"concat({', '.join(operands)}, dim=1)", "")
    text = unescape(page(replace(proved(), outputs=(replace(first, relation=second),))))
    assert [f"<span>{part},</span>" in text for part in operands] == [True] * 4
    assert 'class="unfolded"' in text
    assert 'class="unfolded"' not in page(proved())


def test_what_a_proved_page_says() -> None:
    text = page(proved())
    (headline,) = re.findall("<h1>(.*?)</h1>", text)
    assert headline == (
        "The implementation computes every output of the specification, for all real inputs, on every rank."
    )
    assert '<p class="difference">' not in text
    output = replace(proved().outputs[0], notes=("div_2 is a sum over tp",))
    assert '<p class="difference">div_2 is a sum over tp</p>' in page(replace(proved(), outputs=(output,)))
    assert "computes every checked output" in page(replace(proved(), outputs_total=2))
    assert "casts between float types are the identity" in text
    assert "Counterexample" not in text


def test_files_of_libraries_are_shortened() -> None:
    report = refuted()
    assert report.mismatch is not None
    source = Source("/home/me/.venv/lib/python3.11/site-packages/torch/nn/x.py", 3)
    text = page(
        replace(report, mismatch=replace(report.mismatch, headline=f"wrong ({source})", specification_source=source))
    )
    assert "<h1>wrong (torch/nn/x.py:3)</h1>" in text
    assert f'title="{source}">torch/nn/x.py:3' in text


def hostile() -> Pictured:
    """A report all of whose texts come from somebody who wants to run a script."""
    graph = chain(4, False)
    nodes = tuple(
        replace(node, source=Source(HOSTILE, 1, HOSTILE, HOSTILE), kwargs={"a": HOSTILE} if node.op == "call" else {})
        for node in graph.nodes
    )
    graph = replace(graph, nodes=nodes)
    mismatch = Mismatch(
        "node_2", HOSTILE, HOSTILE, "node_2", HOSTILE, nodes[3].source, nodes[3].source, 0,
        (f"specification: {HOSTILE}", HOSTILE), HOSTILE, HOSTILE,
    )  # fmt: skip
    report = picture_report(graph, {(0,): graph, (1,): graph}, mismatch)
    output = replace(report.outputs[0], name=HOSTILE, reason=HOSTILE, notes=(HOSTILE,), expectation=HOSTILE)
    return replace(
        report,
        job=HOSTILE,
        outputs=(output,),
        assumptions=(Assumption(HOSTILE, HOSTILE, (HOSTILE,)),),
        notes=(HOSTILE,),
    )


def test_nothing_of_a_report_becomes_markup_or_script(tmp_path: Path) -> None:
    report = hostile()
    text = page(report, report.picture())
    assert text.count("<script") == text.count("</script>") == 5  # the scene, dagre and ours
    assert "<img" not in text
    assert "onerror=pwned" in text  # as text
    assert "49" not in re.findall(r"<h1>.*?</h1>", text)[0]
    assert "\u202e" not in text
    assert "\x1b" not in text
    scene = re.findall(r'<script id="scene" type="application/json">(.*?)</script>', text)[0]
    assert not set("<>&") & set(scene)
    assert json.loads(scene)["programs"][0]["nodes"][1]["code"] == HOSTILE
    (tmp_path / "hostile.html").write_text(text)


def test_json_in_html_reads_back() -> None:
    value = {"a": ["</script>", "<!--", "&lt;", "\u2028", 1.5, None]}
    text = as_json_in_html(value)
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == value


@pytest.mark.parametrize("report", [proved(), large(10, False)])
def test_the_browser_may_run_these_scripts_and_no_others(report: Report) -> None:
    text = page(report, report.picture() if isinstance(report, Answer) else None)
    policy = unescape(re.findall(r'Content-Security-Policy" content="(.*?)"', text)[0])
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    for tag, content in re.findall(r"<(script|style)>(.*?)</\1>", text, re.DOTALL):
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"'sha256-{digest}'" in policy.partition(f"{tag}-src")[2].partition(";")[0]


def test_the_page_needs_no_other_file() -> None:
    text = page((report := large(10, True)), report.picture())
    assert "Copyright (c) 2012-2014 Chris Pettitt" in text  # what every copy of the library must have
    assert not re.search(r"""(src|href)\s*=\s*["']|@import|url\(|sourceMappingURL""", text)


def test_the_library_is_the_one_that_its_notice_describes() -> None:
    folder = files("tantamount.report.html").joinpath("static", "dagre")
    notice = folder.joinpath("README.md").read_text()
    digest = hashlib.sha256(folder.joinpath("dagre.min.js").read_bytes()).hexdigest()
    assert f"`{digest}`" in notice
    assert "Permission is hereby granted" in folder.joinpath("LICENSE").read_text()
    assert '="3.1.3"' in folder.joinpath("dagre.min.js").read_text()
    assert "3.1.3" in notice


def test_two_programs_have_a_table_of_their_parameters() -> None:
    weights = (Relation("qkv.weight", 'concat(rank(0, "q"), rank(0, "k"), dim=0)', ""), Relation("<b>", "1 + w", ""))
    text = page(replace(refuted(), sides=("first", "second"), weights=weights, refused=("tested-rules",)))
    assert "2 of the first program, made of those of the second" in text
    assert "concat(rank(0, &#34;q&#34;)" in unescape(text).replace('"', "&#34;") or 'concat(rank(0, "q")' in unescape(
        text
    )
    assert "<b></code>" not in text
    assert "<h2>Second program</h2>" in text
    assert "<h2>Not accepted</h2>" in text
    assert "<td>first program</td>" in text
    assert "made of those of the second" not in page(refuted())
