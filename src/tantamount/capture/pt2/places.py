"""The lines of code that nodes of an exported program come from, and the names of its results: no value depends on
them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from tantamount.capture.documents import parse_json
from tantamount.capture.fields import Fields, Place, shown

__all__ = ["names_of_results", "source_line"]

_FRAME = re.compile(
    r'File "(?P<file>[^"\n]+)", line (?P<line>[0-9]{1,9}), in (?P<function>[^\n]+)\n[ \t]*(?P<code>[^\n]*)'
)
_PYTORCH = re.compile(r"[/\\](?:site|dist)-packages[/\\]torch[/\\]")
_SPEC = ("type", "context", "children_spec")


def source_line(metadata: Mapping[str, object]) -> str | None:
    """The innermost line of a node's trace that is not PyTorch's own, with the module that it was in; ``None`` if the
    trace has none."""
    trace, modules = (metadata.get(key) for key in ("stack_trace", "nn_module_stack"))
    frames = [f for f in _FRAME.finditer(trace) if not _PYTORCH.search(f["file"])] if isinstance(trace, str) else []
    if not frames:
        return None
    parts = modules.split(";")[-1].split(",") if isinstance(modules, str) else []
    module = parts[1] if len(parts) > 1 else ""
    function = f"{module}: {frames[-1]['function']}" if module else frames[-1]["function"]
    return (
        f'File "{_shown(frames[-1]["file"])}", line {frames[-1]["line"]}, in {function} | {frames[-1]["code"].strip()}'
    )


def _shown(name: str) -> str:
    """A file as a person in this folder would call it: relative, if it is below the folder."""
    try:
        return str(Path(name).relative_to(Path.cwd()))
    except (OSError, ValueError):
        return name


def names_of_results(text: object, fields: Mapping[str, Sequence[str]], place: Place) -> list[str]:
    """``logits``, ``0.1``, ... for the leaves of what a program returns, ``output`` for the only one. ``text`` is the
    structure, as JSON; ``fields`` are the names in named tuples. Raises :class:`UserError` for no such text."""
    top = place.list(parse_json(place.string(text), place))
    if len(top) != 2:
        raise place.wrong(shown(top), "a version and a structure", code="pt2-data")
    version, structure = top
    if version != 1:
        raise place.wrong(f"a structure of version {shown(version)}", "version 1", code="pt2-version")
    return [".".join(path) or "output" for path in _leaves(structure, (), fields, place)]


def _leaves(
    spec: object, path: tuple[str, ...], fields: Mapping[str, Sequence[str]], place: Place
) -> Iterator[tuple[str, ...]]:
    place.limits.check("nesting", len(path), place.text, "containers inside one another")
    found = Fields.of(spec, place, _SPEC, _SPEC)
    children = place.list(found.get("children_spec"))
    if found.get("type") is None:
        yield path
        return
    keys = _keys(found.get("type"), found.get("context"), fields)
    for k, child in enumerate(children):
        key = str(keys[k]) if keys is not None and len(keys) == len(children) else str(k)
        yield from _leaves(child, (*path, key), fields, place)


def _keys(kind: object, context: object, fields: Mapping[str, Sequence[str]]) -> Sequence[Any] | None:
    """The keys of a container; ``None`` where its parts have numbers only."""
    if not isinstance(context, str):
        return None
    if kind == "collections.namedtuple":
        return fields.get(context)
    try:
        keys: object = json.loads(context)
    except (ValueError, RecursionError):
        return None
    return cast("list[object]", keys) if isinstance(keys, list) else None
