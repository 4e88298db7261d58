"""Topics as pages of the documentation."""

from __future__ import annotations

from collections.abc import Iterable

from tantamount.explanations.topic import KINDS, Section, Topic

__all__ = ["index", "page"]


def page(topic: Topic, more: Iterable[Section] = ()) -> str:
    """A page about one topic; ``more`` are further sections."""
    parts = [f"# {topic.name}", f"*{KINDS[topic.kind]}.* {topic.title}"]
    for section in (*topic.sections, *more):
        parts.append(f"## {section.heading}")
        if section.text:
            parts.append(section.text)
        if section.rows:
            parts.append(_table(section.rows))
        if section.code:
            language = "python" if section.heading == "Definition" or section.code.startswith(">>>") else "text"
            parts.append(f"```{language}\n{section.code}\n```")
    return "\n\n".join(parts) + "\n"


def index(kind: str, topics: Iterable[Topic]) -> str:
    """The page that lists the topics of a kind. Pages of topics are in the folder named after the kind."""
    rows = [("name", ""), *((f"[{topic.name}]({kind}/{topic.name}.md)", topic.title) for topic in topics)]
    return f"# {KINDS[kind]}\n\n`tantamount explain NAME` prints these pages.\n\n{_table(rows, code=False)}\n"


def _table(rows: Iterable[tuple[str, ...]], *, code: bool = True) -> str:
    head, *body = rows
    shown = [[f"`{cell}`" if code and cell and "`" not in cell else cell for cell in row] for row in body]
    ruler = "|".join("---" for _ in head)
    lines = [" | ".join(head), ruler, *(" | ".join(_cell(cell) for cell in row) for row in shown)]
    return "\n".join(f"| {line} |" for line in lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
