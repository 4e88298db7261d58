"""The text form of graphs: one line per node, printed to be read, and read back exactly.

%mm: float32[12288, 2304] = aten.mm.default(%view_2, %t)  # layers.py:12 in forward | x @ w
%getitem: float32[2] = getitem(%split, 0)
%c: int64[2] = constant _tensor_constant0
output loss = %mm
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isinf, prod

from tantamount.errors import UserError
from tantamount.ir.graph import Argument, Constant, Device, Graph, Node, Output, Ref, Setting, Source
from tantamount.ir.tokens import Cursor, SyntaxProblem, quote
from tantamount.ir.types import DType, TensorType
from tantamount.ir.validate import check_structure
from tantamount.limits import Limits

__all__ = ["format_graph", "format_node", "parse_graph"]

_HEADER = "tantamount graph 1"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_FILE = re.compile(r'[^\s:"#|]+')
_FUNCTION = re.compile(r'[^\s:"#|]+')
_SOURCE = re.compile(
    r"""\ (?P<file>"(?:[^"\\]|\\.)*"|[^\s:"#|]+):(?P<line>-?[0-9]{1,18})
        (?:\ in\ (?P<function>"(?:[^"\\]|\\.)*"|[^\s:"#|]+))?(?:\ \|\ (?P<text>.+))?""",
    re.VERBOSE,
)
_KEYWORDS = frozenset({"input", "constant"})


# ---------------------------------------------------------------------------------------------- printing
def format_graph(graph: Graph) -> str:
    """The graph, without its path, groups and ranks that HLO text spells out, size symbols and declared operators;
    :func:`parse_graph` reads it back."""
    lines = [_HEADER]
    if graph.rank is not None:
        lines.append(f"rank {graph.rank}")
    if graph.origin:
        lines.append(f"origin {quote(graph.origin)}")
    lines += [format_node(node) for node in graph.nodes]
    for name, constant in graph.constants.items():
        lines.append(f"value {_name(name)}: {constant.type} = {_argument(constant.data)}")
    lines += [f"output {_name(output.name)} = {_reference(output.node)}" for output in graph.outputs]
    return "\n".join(lines) + "\n"


def format_node(node: Node) -> str:
    """The line of one node."""
    head = f"{_reference(node.name)}: {node.type}" if node.type is not None else _reference(node.name)
    if node.op == "call":
        keywords = [f"{_name(key)}={_argument(value)}" for key, value in node.kwargs.items()]
        body = f"{_name(node.target)}({', '.join([*map(_argument, node.args), *keywords])})"
    else:
        body = node.op if node.op == "input" and node.target == node.name else f"{node.op} {_name(node.target)}"
    return f"{head} = {body}" + (f"  #{_source(node.source)}" if node.source is not None else "")


def _name(name: str) -> str:
    return name if _NAME.fullmatch(name) else quote(name)


def _reference(name: str) -> str:
    return f"%{_name(name)}"


def _argument(value: Argument) -> str:
    if isinstance(value, Ref):
        return _reference(value.name)
    if isinstance(value, DType):
        return value.label
    if isinstance(value, Device):
        return f"device({quote(value.name)})"
    if isinstance(value, Setting):
        return f"setting({quote(value.name)})"
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_argument, value))}]"
    if isinstance(value, complex):
        return f"complex({value.real!r}, {value.imag!r})"
    return repr(value)


def _source(source: Source) -> str:
    text = f" {_plain(source.file, _FILE)}:{source.line}"
    if source.function:
        text += f" in {_plain(source.function, _FUNCTION)}"
    if source.text:
        plain = source.text.isprintable() and source.text == source.text.strip() and not source.text.startswith('"')
        text += f" | {source.text if plain else quote(source.text)}"
    return text


def _plain(text: str, pattern: re.Pattern[str]) -> str:
    return text if text.isprintable() and pattern.fullmatch(text) else quote(text)


# ---------------------------------------------------------------------------------------------- parsing
def parse_graph(text: str, path: str, limits: Limits | None = None) -> Graph:
    """The graph that :func:`format_graph` printed. Raises :class:`UserError` with line and character."""
    limits = limits or Limits()
    rank: int | None = None
    origin = ""
    nodes: list[Node] = []
    constants: dict[str, Constant] = {}
    outputs: list[Output] = []
    lines = text.split("\n")
    if lines[0] != _HEADER:
        found = repr(lines[0][:40])
        raise UserError("text-syntax", place=f"{path}:1:1", found=found, needed=f"the line {_HEADER!r}")
    for number, line in enumerate(lines[1:], 2):
        try:
            cursor = Cursor(line, limits.values)
            if cursor.token.kind == "ref":
                nodes.append(_parse_node(cursor, path, limits))
                limits.check("nodes", len(nodes), path, "nodes")
            elif cursor.token.kind == "name":
                start = cursor.take("name", "a statement")
                if start.text == "output":
                    outputs.append(_parse_output(cursor))
                elif start.text == "value":
                    name, constant = _parse_constant(cursor, path, limits)
                    if name in constants:
                        raise SyntaxProblem(repr(name[:40]), "one value per constant", start.position)
                    constants[name] = constant
                elif start.text == "rank":
                    rank = cursor.integer("a rank number")
                elif start.text == "origin":
                    origin = cursor.string()
                else:
                    raise SyntaxProblem(str(start), "a node, output, value, rank or origin", start.position)
            cursor.finish()
        except SyntaxProblem as problem:
            place = f"{path}:{number}:{problem.position + 1}"
            raise UserError("text-syntax", place=place, found=problem.found, needed=problem.needed) from None
    graph = Graph(tuple(nodes), tuple(outputs), constants, rank, origin, path)
    check_structure(graph)
    return graph


def _parse_name(cursor: Cursor) -> str:
    if cursor.token.kind == "string":
        return cursor.string()
    return cursor.take("name", "a name").text


def _parse_node(cursor: Cursor, path: str, limits: Limits) -> Node:
    name = cursor.reference()
    node_type = _parse_type(cursor, path, limits) if cursor.accept(":") else None
    cursor.expect("=")
    keyword = cursor.token.text if cursor.token.kind == "name" else ""
    target = _parse_name(cursor)
    op, args, kwargs = "call", (), dict[str, Argument]()
    if cursor.at("("):
        args, kwargs = _parse_call(cursor, limits)
    elif keyword in _KEYWORDS:
        op = keyword
        bare = cursor.token.kind in ("comment", "end") and op == "input"
        target = name if bare else _parse_name(cursor)
    else:
        raise cursor.problem("'(' and the operator's arguments")
    return Node(name, op, target, args, kwargs, node_type, _parse_source(cursor))


def _parse_type(cursor: Cursor, path: str, limits: Limits) -> TensorType:
    token = cursor.take("name", "a tensor type such as float32[2, 3]")
    dtype = DType.named(token.text)
    if dtype is None:
        raise SyntaxProblem(str(token), "an element type", token.position)
    cursor.expect("[")
    shape: list[int] = []
    while not cursor.accept("]"):
        token = cursor.token
        shape.append(cursor.integer("a size"))
        if shape[-1] < 0:
            raise SyntaxProblem(str(token), "a size from 0 on", token.position)
        limits.check("dimensions", len(shape), path, "dimensions")
        if not cursor.at("]"):
            cursor.expect(",")
    return TensorType(tuple(shape), dtype)


def _parse_call(cursor: Cursor, limits: Limits) -> tuple[tuple[Argument, ...], dict[str, Argument]]:
    args: list[Argument] = []
    kwargs: dict[str, Argument] = {}
    cursor.expect("(")
    while not cursor.accept(")"):
        if cursor.followed_by("="):
            token = cursor.token
            key = _parse_name(cursor)
            if key in kwargs:
                raise SyntaxProblem(str(token), "every keyword once", token.position)
            cursor.expect("=")
            kwargs[key] = _parse_argument(cursor, limits.nesting)
        elif kwargs:
            raise cursor.problem("keyword arguments last")
        else:
            args.append(_parse_argument(cursor, limits.nesting))
        if not cursor.at(")"):
            cursor.expect(",")
    return tuple(args), kwargs


_LITERALS: Mapping[str, Argument] = {"True": True, "False": False, "None": None, "inf": float("inf")}


def _parse_argument(cursor: Cursor, depth: int) -> Argument:
    token = cursor.token
    if token.kind == "ref":
        return Ref(cursor.reference())
    if token.kind == "string":
        return cursor.string()
    if token.kind == "integer":
        return cursor.integer()
    if token.kind == "float":
        return _parse_float(cursor)
    if cursor.accept("["):
        if depth <= 0:
            raise SyntaxProblem("a list", "lists nested less deeply (limit nesting)", token.position)
        items: list[Argument] = []
        while not cursor.accept("]"):
            items.append(_parse_argument(cursor, depth - 1))
            if not cursor.at("]"):
                cursor.expect(",")
        return tuple(items)
    return _parse_word(cursor)


def _parse_float(cursor: Cursor) -> float:
    token = cursor.token
    if cursor.accept("inf", "name"):
        return float("inf")
    if token.kind == "integer":
        return float(cursor.integer())
    value = float(cursor.take("float", "a number").text)
    if isinf(value) and token.text != "-inf":
        raise SyntaxProblem(str(token), "a finite number, inf or -inf", token.position)
    return value


def _parse_word(cursor: Cursor) -> Argument:
    token = cursor.take("name", "an argument")
    if token.text in _LITERALS:
        return _LITERALS[token.text]
    dtype = DType.named(token.text)
    if dtype is not None:
        return dtype
    if token.text not in ("device", "setting", "complex"):
        raise SyntaxProblem(str(token), "an argument", token.position)
    cursor.expect("(")
    if token.text == "complex":
        real = _parse_float(cursor)
        cursor.expect(",")
        value: Argument = complex(real, _parse_float(cursor))
    else:
        value = Device(cursor.string()) if token.text == "device" else Setting(cursor.string())
    cursor.expect(")")
    return value


def _parse_source(cursor: Cursor) -> Source | None:
    if cursor.token.kind != "comment":
        return None
    token = cursor.take("comment", "a source position")
    match = _SOURCE.fullmatch(token.text)
    if match is None:
        needed = "a source position such as # file.py:12 in forward | code"
        raise SyntaxProblem(repr(token.text[:40]), needed, token.position)

    def part(key: str) -> str:
        text = match[key] or ""
        return Cursor(text).string() if text.startswith('"') else text

    return Source(part("file"), int(match["line"]), part("function"), part("text"))


def _parse_output(cursor: Cursor) -> Output:
    name = _parse_name(cursor)
    cursor.expect("=")
    return Output(name, cursor.reference())


def _parse_constant(cursor: Cursor, path: str, limits: Limits) -> tuple[str, Constant]:
    name = _parse_name(cursor)
    cursor.expect(":")
    constant_type = _parse_type(cursor, path, limits)
    cursor.expect("=")
    token = cursor.token
    items = _parse_argument(cursor, limits.nesting)
    if not isinstance(items, tuple):
        raise SyntaxProblem(str(token), "a list of values", token.position)
    data: list[bool | int | float | complex] = []
    for item in items:
        if not isinstance(item, (bool, int, float, complex)):
            raise SyntaxProblem("a value that is not a number", "numbers", token.position)
        data.append(item)
    if len(data) != prod(constant_type.shape):
        raise SyntaxProblem(f"{len(data)} values", f"{prod(constant_type.shape)} values", token.position)
    return name, Constant(constant_type, tuple(data))
