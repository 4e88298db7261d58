"""Reading graphs of format ``fx-nodes/1``: JSON, plain or gzip."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tantamount.capture.arguments import decode_argument, decode_constant, decode_source, decode_type
from tantamount.capture.documents import parse_json
from tantamount.capture.fields import Fields, Place, is_integer, shown
from tantamount.capture.inplace import without_overwriting
from tantamount.capture.size_symbols import decode_domain
from tantamount.capture.strides import check_strides
from tantamount.capture.waits import check_waits
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref, Source
from tantamount.ir.types import TensorType
from tantamount.ir.validate import check_structure
from tantamount.limits import Limits

__all__ = ["graph_of", "parse_graph"]

_FORMAT = "fx-nodes/1"
_TOP = ("format", "rank", "origin", "nodes", "outputs", "constants", "sizes")
_NODE = ("name", "op", "target", "args", "kwargs", "shape", "dtype", "stack")
_PYTHON = re.compile(r"<built-in function (\w+)>|<function (sym_\w+) at 0x[0-9a-f]+>|_operator\.(\w+)|(sym_\w+)")
_OPS = {"placeholder": "input", "get_attr": "constant", "call_function": "call", "output": "output"}


def parse_graph(text: str, path: str, limits: Limits) -> Graph:
    """The graph in a JSON text, with its structure checked (types: ``ops.check``); ``path`` names it in messages.

    Raises :class:`UserError` for all that is not as the format says."""
    return graph_of(parse_json(text, Place("graph", path, limits)), path, limits)


def graph_of(document: object, path: str, limits: Limits) -> Graph:
    """The graph in a document, a value as JSON has them, with its structure checked. Raises :class:`UserError` for all
    that is not as the format says; ``path`` names the document in messages."""
    place = Place("graph", path, limits)
    top = Fields.of(document, place, _TOP, ("format", "nodes"))
    if top.get("format") != _FORMAT:
        raise top.at("format").wrong(
            shown(top.get("format")),
            f'"{_FORMAT}"',
            code="format",
            hint="another version of the format, or no graph at all",
        )
    if "sizes" in top:
        place = place._replace(domain=decode_domain(top.get("sizes"), top.at("sizes")))
        top = Fields(top.values, place)
    entries = top.at("nodes").list(top.get("nodes"), "a list of nodes")
    limits.check("nodes", len(entries), place.text, "nodes")
    constants = _constants(top)
    nodes: list[Node] = []
    sources = _Sources()
    returned: tuple[Argument, ...] | None = None
    for number, entry in enumerate(entries):
        if returned is not None:
            raise place.at(f"node {number}").wrong(
                "a node after the output node", "the output node last", code="output-node"
            )
        fields = Fields.of(entry, place.at(f"node {number}"), _NODE, ("name", "op"))
        name = fields.name("name", "the node's name")
        node_place = place.at(f"node {name}")
        fields = Fields(fields.values, node_place)
        op = _op(fields)
        if op == "output":
            returned = _arguments(fields)
        else:
            nodes.append(_node(name, op, fields, constants, sources))
    graph = Graph(tuple(nodes), _outputs(top, returned), constants, _rank(top), _origin(top), path, sizes=place.domain)
    check_structure(graph)
    check_waits(graph)
    graph = without_overwriting(graph)
    check_strides(graph)
    return graph


# ---------------------------------------------------------------------------------------------- nodes
def _op(fields: Fields) -> str:
    given = fields.get("op")
    if isinstance(given, str) and given in _OPS:
        return _OPS[given]
    op = fields.at("op").string(given, "the node's op")
    if op not in _OPS:
        raise fields.at("op").wrong(shown(op), f"one of {', '.join(_OPS)}")
    return _OPS[op]


def _arguments(fields: Fields) -> tuple[Argument, ...]:
    values = fields.at("args").list(fields.values.get("args", []), "a list of arguments")
    return tuple([decode_argument(value, fields.at(f"args[{k}]")) for k, value in enumerate(values)])


def _keywords(fields: Fields) -> dict[str, Argument]:
    table = fields.at("kwargs").table(fields.values.get("kwargs", {}), "a table of arguments")
    if not table:
        return {}
    names = [fields.at("kwargs").name(key, "an argument's name") for key in table]
    return {name: decode_argument(table[name], fields.at(f"kwargs[{shown(name)}]")) for name in names}


@dataclass
class _Sources:
    """Positions in the source, by their texts: most nodes share theirs with others."""

    known: dict[str, Source | None] = field(default_factory=dict[str, "Source | None"])

    def read(self, fields: Fields) -> Source | None:
        """The position that an entry states. Raises :class:`UserError` for what is none."""
        value = fields.get("stack")
        if not isinstance(value, str):
            return decode_source(value, fields.at("stack"))
        if value not in self.known:
            self.known[value] = decode_source(value, fields.at("stack"))
        return self.known[value]


def _node(name: str, op: str, fields: Fields, constants: dict[str, Constant], sources: _Sources) -> Node:
    target = name
    if "target" in fields or op != "input":
        target = fields.name("target", "an operator's name" if op == "call" else "a name")
    target = _operator_name(target) if op == "call" else target
    node_type = decode_type(fields.get("shape"), fields.get("dtype"), fields.place, symbols=op == "call")
    args, kwargs = _arguments(fields), _keywords(fields)
    if op != "call" and (args or kwargs):
        raise fields.place.wrong(f"{len(args) + len(kwargs)} arguments", f"no arguments for {fields.get('op')}")
    if op == "input" and node_type is None:
        raise fields.place.wrong("an input without a type", "its shape and dtype", code="input-type")
    if op == "constant":
        _check_constant_type(target, node_type, constants, fields.place)
    if target == "getitem" and op == "call":
        _check_getitem(args, kwargs, fields.place)
    return Node(name, op, target, args, kwargs, node_type, sources.read(fields))


def _operator_name(target: str) -> str:
    """``operator.mul`` for what Python prints of its function, ``torch.sym_max`` likewise, ``getitem`` for any of its
    names; other names as they are."""
    found = _PYTHON.fullmatch(target)
    if found is not None:
        built_in, symbolic, plain, bare = found.groups()
        target = f"operator.{built_in or plain}" if built_in or plain else f"torch.{symbolic or bare}"
    return "getitem" if target == "operator.getitem" else target


def _check_constant_type(
    target: str, node_type: TensorType | None, constants: dict[str, Constant], place: Place
) -> None:
    recorded = constants.get(target)
    if node_type is not None and recorded is not None and recorded.type != node_type:
        raise place.wrong(f"type {node_type}", f"{recorded.type}, the type of its recorded value", code="constant-type")


def _check_getitem(args: tuple[Argument, ...], kwargs: dict[str, Argument], place: Place) -> None:
    if kwargs or len(args) != 2 or not isinstance(args[0], Ref) or not is_integer(args[1]):
        raise place.wrong("getitem of something else", "getitem(node, index) with a constant index", code="getitem")


# ---------------------------------------------------------------------------------------------- the rest
def _constants(top: Fields) -> dict[str, Constant]:
    table = top.values.get("constants")
    if table is None:
        return {}
    place = top.at("constants")
    values = place.table(table, "a table of constants")
    names = [place.name(key, "a constant's name") for key in values]
    return {name: decode_constant(values[name], place.at(name)) for name in names}


def _rank(top: Fields) -> int | None:
    rank = top.get("rank")
    return None if rank is None else top.at("rank").integer(rank, 0, 1 << 31, "a rank number from 0 on, or null")


def _origin(top: Fields) -> str:
    origin = top.get("origin")
    return "" if origin is None else top.at("origin").string(origin)


def _outputs(top: Fields, returned: tuple[Argument, ...] | None) -> tuple[Output, ...]:
    listed = top.values.get("outputs")
    if listed is None:
        if returned is None:
            raise top.place.wrong("neither an output node nor `outputs`", "one of them", code="no-outputs")
        return tuple(Output(name, name) for name in dict.fromkeys(_flatten(returned, top.at("output node"))))
    outputs: list[Output] = []
    for k, entry in enumerate(top.at("outputs").list(listed, "a list of outputs")):
        fields = Fields.of(entry, top.at(f"outputs[{k}]"), ("name", "node"), ("name", "node"))
        name = fields.at("name").name(fields.get("name"), "the output's name")
        outputs.append(Output(name, fields.at("node").name(fields.get("node"), "the name of a node")))
    return tuple(outputs)


def _flatten(returned: tuple[Argument, ...], place: Place) -> list[str]:
    names: list[str] = []
    for item in returned:
        if isinstance(item, Ref):
            names.append(item.name)
        elif isinstance(item, tuple):
            names.extend(_flatten(item, place))
        elif item is not None:
            raise place.wrong(
                f"the value {shown(item)}",
                "nodes and nulls",
                code="output-value",
                hint="a result that is not a tensor cannot be compared",
            )
    return names
