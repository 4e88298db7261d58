"""The pages that the documentation generates: one for every topic and operator, linked from where they are listed."""

from __future__ import annotations

import re
from importlib.util import module_from_spec, spec_from_file_location
from typing import Any

import pytest

from support.console import ROOT
from tantamount.explanations.topics import topics
from tantamount.ops.table import table
from tantamount.verdict import Verdict

pytest.importorskip("mkdocs", reason="the site is built with MkDocs")


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    from mkdocs.config import load_config
    from mkdocs.structure.files import Files

    config = load_config(str(ROOT / "mkdocs.yml"))
    files = config.plugins.on_files(Files([]), config=config)
    return {file.src_uri: file.content_string for file in files}


def hooks() -> Any:
    spec = spec_from_file_location("docs_hooks", ROOT / "docs" / "hooks" / "pages.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_topic_and_every_operator_has_a_page(pages: dict[str, str]) -> None:
    for topic in topics().values():
        assert pages[f"explained/{topic.kind}/{topic.name}.md"].startswith(f"# {topic.name}\n")
        assert f"({topic.kind}/{topic.name}.md)" in pages[f"explained/{topic.kind}.md"]
    for row in table().values():
        assert pages[f"explained/operator/{row.name}.md"].startswith(f"# {row.name}\n")


def test_pages_of_operators_have_types_by_example(pages: dict[str, str]) -> None:
    assert (
        "aten.bmm.default(float32[2,3,4], float32[2,4,5]) -> float32[2, 3, 5]"
        in pages["explained/operator/aten.bmm.default.md"]
    )


def test_the_table_of_operators_leads_to_the_pages(pages: dict[str, str]) -> None:
    class Operators:
        file = type("File", (), {"src_uri": "operators.md"})

    written = (ROOT / "docs" / "operators.md").read_text()
    linked = hooks().on_page_markdown(written, Operators, None, None)
    assert "[`bmm.default`](explained/operator/aten.bmm.default.md)" in linked
    counted = re.search(r"(\d+) overloads", written)
    assert counted is not None
    assert linked.count("](explained/operator/") == int(counted[1])


def test_links_that_leave_the_documentation_become_text() -> None:
    class Note:
        file = type("File", (), {"src_uri": "design/note.md"})

    text = "[code](../../src/a.py), [jobs](../jobs.md#x), [other](other.md)"
    assert hooks().on_page_markdown(text, Note, None, None) == "code, [jobs](../jobs.md#x), [other](other.md)"


def test_the_page_on_verdicts_names_all_of_them_and_every_assumption() -> None:
    written = (ROOT / "docs" / "verdicts.md").read_text()
    assert all(f"## {verdict.value}\n" in written for verdict in Verdict)
    assert all(f"| `{name}` |" in written for name, topic in topics().items() if topic.kind == "assumption")
