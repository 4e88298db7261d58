"""Pages that the documentation generates from the source: one per error code, verdict, assumption, rule, operator, ...

MkDocs calls :func:`on_files` before it reads pages, and :func:`on_page_markdown` for each. Nothing is written to disk.
Samples of calls and the places of errors are those that the tests use: ``PYTHONPATH=tests mkdocs build``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from posixpath import dirname, join, normpath
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from support.error_codes import sites
from tantamount.errors import DataDependent
from tantamount.explanations.markdown import index, page
from tantamount.explanations.operators import operator_topic
from tantamount.explanations.topic import KINDS, Section
from tantamount.explanations.topics import topics
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.execute import apply
from tantamount.ops.table import Operator, table
from tantamount.samples.operators.table import SAMPLES, Sample

_FOLDER = "explained"
_MAX_SAMPLES = 6
_LINKS = re.compile(r"\[([^\]]+)\]\((\.\./[^)\s]+)\)")
_OVERLOADS = re.compile(r"(?<=^\| )`.*?`(?= \| `\()", re.MULTILINE)  # the first column of the table of operators


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    for kind in KINDS:
        members = [topic for topic in topics().values() if topic.kind == kind]
        if members:
            files.append(File.generated(config, f"{_FOLDER}/{kind}.md", content=index(kind, members)))
        for topic in members:
            more = _raised(topic.name) if kind == "error" else []
            text = page(topic, more)
            files.append(File.generated(config, f"{_FOLDER}/{kind}/{topic.name}.md", content=text))
    for row in _rows():
        text = page(operator_topic(row), _types(row))
        files.append(File.generated(config, f"{_FOLDER}/operator/{row.name}.md", content=text))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Lead from every name in the table of operators to its page. Links to files beside the documentation, which a site
    does not have, become their text."""

    def inside(found: re.Match[str]) -> str:
        target = normpath(join(dirname(page.file.src_uri), found[2]))
        return found[1] if target.startswith("..") else found[0]

    markdown = _LINKS.sub(inside, markdown)
    if page.file.src_uri != "operators.md":
        return markdown
    rows = table()

    def linked(found: re.Match[str]) -> str:
        return "<br>".join(_link(name, rows) for name in found[0].split("<br>"))

    return _OVERLOADS.sub(linked, markdown)


def _link(name: str, rows: Any) -> str:
    bare = name.strip("`")
    row = next(rows[full] for full in (f"aten.{bare}", f"_c10d_functional.{bare}", bare) if full in rows)
    return f"[{name}]({_FOLDER}/operator/{row.name}.md)"


def _rows() -> list[Operator]:
    return list({id(row): row for row in table().values()}.values())


def _raised(code: str) -> list[Section]:
    places = dict.fromkeys(site.file for site in sites().get(code, ()))
    return [Section("Raised in", rows=(("file",), *((f"src/tantamount/{file}",) for file in places)))] if places else []


def _types(row: Operator) -> list[Section]:
    """The types of some calls, as the definition gives them."""
    lines = [line for sample in SAMPLES if sample.target in row.targets for line in _typed_call(row, sample)]
    return [Section("Types by example", code="\n".join(dict.fromkeys(lines[:_MAX_SAMPLES])))] if lines else []


def _typed_call(row: Operator, sample: Sample) -> Iterator[str]:
    args = tuple(map(_typed, sample.args))
    kwargs = {key: _typed(item) for key, item in sample.kwargs.items()}
    try:
        result = apply(row, sample.target, args, kwargs, Builder(TypesOnly(), "sample"), "sample")
    except DataDependent:
        return
    shown = ", ".join(str(x.type) if isinstance(x, Tensor) else "none" for x in _results(result))
    yield f"{sample} -> {shown}"


def _typed(item: Any) -> Any:
    if hasattr(item, "shape"):
        return Tensor(item.shape, item.dtype, None)
    return tuple(map(_typed, item)) if isinstance(item, tuple) else item


def _results(result: Any) -> tuple[Any, ...]:
    return result if isinstance(result, tuple) else (result,)
