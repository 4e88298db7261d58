"""The nodes of an exported program, and of the programs inside it, as nodes of a document."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from tantamount.capture.fields import Fields, Place, is_integer, nearest, shown
from tantamount.capture.inplace import is_in_place
from tantamount.capture.pt2.arguments import argument_of, constant_of, tensor_name
from tantamount.capture.pt2.places import source_line
from tantamount.capture.pt2.types import Layout, layout_of, union
from tantamount.capture.written_numbers import as_written
from tantamount.ops.table import table

__all__ = ["GRAPH", "Body", "Written"]

GRAPH = (
    "inputs", "outputs", "nodes", "tensor_values", "sym_int_values", "sym_bool_values", "is_single_tensor_return",
    "custom_obj_values", "sym_float_values",
)  # fmt: skip
_NODE = ("target", "inputs", "outputs", "metadata", "is_hop_single_tensor_return", "name")
_POSITIONAL, _KEYWORD = 1, 2
_OPS = "torch.ops."
_OF_NUMBERS = ("_operator.", "math.", "torch.sym_")
# Names of parameters that Python does not allow.
_IN_PYTHON = {"from": "from_"}
# `detach_` takes a tensor off the tape and writes no memory: in a graph of values it is `detach`.
_SAME = {"aten.detach_.default": "aten.detach.default"}
# Programs inside programs that are what they hold, and how many constants stand before the inner program.
_GRADIENTS, _AUTOCAST = "torch.ops.higher_order.wrap_with_set_grad_enabled", "torch.ops.higher_order.wrap_with_autocast"
_WRAPPED = {_GRADIENTS: 1, _AUTOCAST: 4}


@dataclass
class Written:
    """The nodes of a document so far, and their names."""

    nodes: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    taken: set[str] = field(default_factory=set[str])

    def fresh(self, wanted: str) -> str:
        """A name that no node has yet."""
        name, count = wanted, 0
        while name in self.taken:
            count += 1
            name = f"{wanted}'{count if count > 1 else ''}"
        self.taken.add(name)
        return name

    def overwrites(self) -> bool:
        """True if an operator writes to memory."""
        return any(node["op"] == "call_function" and is_in_place(str(node["target"])) for node in self.nodes)


@dataclass
class Body:
    """The nodes of a program, or of one inside it (``depth`` counts them); ``names`` are those of the document's nodes,
    by the names of tensors here."""

    written: Written
    fields: Fields
    names: dict[str, str]
    depth: int = 0
    _layouts: dict[str, Layout] = field(default_factory=dict[str, Layout])

    def run(self) -> None:
        """Write the nodes. Raises :class:`UserError` with the node of what is wrong or not supported."""
        place = self.fields.at("nodes")
        place.limits.check("nesting", self.depth, place.text, "programs inside one another")
        entries = place.list(self.fields.get("nodes"))
        place.limits.check("nodes", len(entries) + len(self.written.nodes), place.text, "nodes")
        used = self.used()
        for number, entry in enumerate(entries):
            fields = Fields.of(entry, place.at(f"node {number}"), _NODE, ("target", "inputs", "outputs"))
            target = fields.name("target", "an operator")
            here = place.at(f"node {shown(fields.get('name') or number)}: {target}")
            self._node(target, Fields(fields.values, here), used)

    def used(self) -> set[str]:
        """The names that nodes read, or that are outputs."""
        entries = self.fields.at("nodes").list(self.fields.get("nodes"))
        read = [cast("dict[str, object]", entry).get("inputs") for entry in entries if isinstance(entry, dict)]
        return set(_names([*read, self.fields.get("outputs")]))

    def node(self, name: str, place: Place) -> str:
        """The node that has the value of a tensor. Raises :class:`UserError` where nothing before makes it."""
        found = self.names.get(name)
        if found is None:
            raise place.wrong(
                f"{shown(name)}, which nothing before it makes", "inputs, and results of nodes before",
                code="pt2-data", hint=nearest(name, self.names),
            )  # fmt: skip
        return found

    def layout(self, name: str, place: Place) -> Layout:
        """The type of a tensor, and where its elements lie."""
        if name not in self._layouts:
            values = self.fields.at("tensor_values")
            meta = values.table(self.fields.get("tensor_values")).get(name)
            if meta is None:
                raise place.wrong(f"{shown(name)}, of which no type is on record", "its type", code="pt2-data")
            self._layouts[name] = layout_of(meta, values.at(shown(name)))
        return self._layouts[name]

    def _node(self, target: str, fields: Fields, used: set[str]) -> None:
        if target in _WRAPPED:
            self._inside(target, fields)
            return
        if target.startswith(_OF_NUMBERS):
            raise fields.place.wrong(
                "a number that is computed from sizes or data", "numbers that are known", code="pt2-symbolic",
                hint="export without `dynamic_shapes` and without `.item()`",
            )  # fmt: skip
        if not target.startswith(_OPS) or target.startswith("torch.ops.higher_order."):
            raise fields.place.wrong(
                "no operator on tensors", "torch.ops.NAMESPACE.NAME.OVERLOAD", code="pt2-unsupported",
                hint="tantamount capture MODULE:FUNCTION captures the model itself, in PyTorch",
            )  # fmt: skip
        name = target.removeprefix(_OPS)
        entry: dict[str, Any] = {"op": "call_function", "target": _SAME.get(name, name)}
        self._check_strides(name, fields)
        line = source_line(fields.at("metadata").table(fields.values.get("metadata", {})))
        if line is not None:
            entry["stack"] = line
        entry |= self._arguments(name, fields)
        self._results(entry, fields, used)

    def _check_strides(self, name: str, fields: Fields) -> None:
        """Raise :class:`UserError` for ``as_strided`` of a tensor whose memory has its elements in another order: it is
        read as if they were in order."""
        if not name.startswith("aten.as_strided"):
            return
        for item in fields.at("inputs").list(fields.get("inputs"))[:1]:
            kind, value = union(fields.at("inputs").table(item).get("arg"), fields.at("inputs"))
            if kind == "as_tensor" and not self.layout(tensor_name(value, fields.place), fields.place).in_order:
                raise fields.place.wrong(
                    "an operand whose memory has its elements in another order", "one that is contiguous in memory",
                    code="strides", hint="write views instead of as_strided",
                )  # fmt: skip

    def _arguments(self, target: str, fields: Fields) -> dict[str, Any]:
        """Positional and keyword arguments. A positional one must be that of the name which the archive has for it."""
        row = table().get(target)
        parameters = None if row is None else list(row.parameters)
        others = {} if row is None else {other: name for name, other in row.other_names}
        args: list[Any] = []
        kwargs: dict[str, Any] = {}
        place = fields.at("inputs")
        for position, item in enumerate(place.list(fields.get("inputs"))):
            entry = Fields.of(item, place.at(str(position)), ("name", "arg", "kind"), ("name", "arg", "kind"))
            name = entry.name("name", "the name of a parameter")
            here = place.at(name)
            value = argument_of(entry.get("arg"), here, self.node)
            kind = entry.get("kind")
            if kind == _KEYWORD and is_integer(kind) and name not in kwargs:
                kwargs[name] = value
                continue
            own = others.get(name, _IN_PYTHON.get(name, name))
            apart = parameters is not None and parameters[position : position + 1] != [own]
            if kind != _POSITIONAL or not is_integer(kind) or kwargs or apart:
                wanted = parameters[position] if parameters is not None and position < len(parameters) else "none"
                raise here.wrong(
                    f"argument {position}, {shown(name)} (kind {shown(kind)})",
                    f"positional arguments in order (here {wanted}), then keywords, each once", code="pt2-data",
                )  # fmt: skip
            args.append(value)
        return {"args": args, "kwargs": kwargs}

    def _results(self, entry: dict[str, Any], fields: Fields, used: set[str]) -> None:
        """Write the node, and one for every one of several results that is used."""
        place = fields.at("outputs")
        given = [union(value, place) for value in place.list(fields.get("outputs"))]
        own = fields.get("name")
        base = place.string(own) if own is not None else str(entry["target"]).split(".")[-2]
        if len(given) == 1 and given[0][0] == "as_tensor":
            name = tensor_name(given[0][1], place)
            type_ = self.layout(name, place).type
            self._write(self._new(name, place), {**entry, **_type(type_.shape, type_.dtype.label)})
            return
        if len(given) == 1 and given[0][0] == "as_tensors":
            parts: list[str | None] = [tensor_name(one, place) for one in place.list(given[0][1])]
        else:
            parts = [self._part(kind, value, place) for kind, value in given]
        named = [None if name is None or name not in used else self._new(name, place) for name in parts]
        whole = self.written.fresh(base)
        self._write(whole, entry)
        for k, (name, node) in enumerate(zip(parts, named, strict=True)):
            if name is not None and node is not None:
                type_ = self.layout(name, place).type
                call: dict[str, Any] = {
                    "op": "call_function",
                    "target": "getitem",
                    "args": [{"node": whole}, k],
                    "kwargs": {},
                }
                line = {"stack": entry["stack"]} if "stack" in entry else {}
                self._write(node, {**call, **_type(type_.shape, type_.dtype.label), **line})

    def _part(self, kind: str, value: object, place: Place) -> str | None:
        """The name of one of several results; ``None`` for one that there is not."""
        if kind == "as_none":
            return None
        if kind.startswith("as_sym"):
            raise place.wrong("a number that data decide", "tensors", code="pt2-symbolic",
                              hint="export without `.item()`")  # fmt: skip
        if kind != "as_tensor":
            raise place.wrong(f"{shown(kind)} among several results", "tensors", code="pt2-unsupported")
        return tensor_name(value, place)

    def _new(self, name: str, place: Place) -> str:
        """The name of the node of a tensor that is made here."""
        if name in self.names:
            raise place.wrong(f"{shown(name)} a second time", "one value for every name", code="pt2-data")
        self.names[name] = self.written.fresh(name)
        return self.names[name]

    def _write(self, name: str, entry: Mapping[str, Any]) -> None:
        written = {"name": name, **entry}
        dtype = written.get("dtype")
        if isinstance(dtype, str):
            target = str(written["target"])
            written["args"] = [as_written(x, target, dtype) if isinstance(x, float) else x for x in written["args"]]
        self.written.nodes.append(written)

    # -- programs inside
    def _inside(self, target: str, fields: Fields) -> None:
        """Write the nodes of a program that is what it holds, where it is called."""
        place = fields.at("inputs")
        items = [Fields.of(item, place, ("name", "arg", "kind"), ("arg", "kind")) for item in
                 place.list(fields.get("inputs"))]  # fmt: skip
        before = _WRAPPED[target]
        if len(items) <= before or any(item.get("kind") != _POSITIONAL for item in items):
            raise place.wrong(
                f"{len(items)} arguments", f"{before} constants, a program, its operands", code="pt2-data"
            )
        constants = [constant_of(item.get("arg"), place) for item in items[:before]]
        if target == _AUTOCAST and constants[2] is not False:
            raise place.wrong("autocast that is on", "autocast that is off", code="pt2-unsupported",
                              hint="capture the model itself, in PyTorch")  # fmt: skip
        kind, value = union(items[before].get("arg"), place)
        if kind != "as_graph":
            raise place.wrong(shown(kind), "a program", code="pt2-data")
        graph = Fields.of(value, place.at(kind), ("name", "graph"), ("graph",))
        own = Fields.of(graph.get("graph"), graph.place, GRAPH, ("inputs", "outputs", "nodes", "tensor_values"))
        inner = Body(self.written, own, {}, self.depth + 1)
        operands = [union(item.get("arg"), place) for item in items[before + 1 :]]
        for name, (kind, value) in _pairs(own, "inputs", operands):
            if kind == "as_tensor":
                inner.names[name] = self.node(tensor_name(value, place), place)
        inner.run()
        given = fields.at("outputs").list(fields.get("outputs"))
        for name, (kind, value) in _pairs(own, "outputs", [union(one, fields.at("outputs")) for one in given]):
            if kind == "as_tensor":
                outer = tensor_name(value, fields.at("outputs"))
                if outer in self.names:
                    raise fields.place.wrong(f"{shown(outer)} a second time", "one value for every name",
                                             code="pt2-data")  # fmt: skip
                self.names[outer] = inner.node(name, fields.place)


def _pairs(own: Fields, key: str, outside: list[tuple[str, object]]) -> Iterator[tuple[str, tuple[str, object]]]:
    """The names of a program's inputs or outputs, each with what it is outside; constants must be the same there."""
    place = own.at(key)
    inside = [union(value, place) for value in place.list(own.get(key))]
    if len(inside) != len(outside):
        raise place.wrong(f"{len(inside)} {key}", f"{len(outside)}, as the call has", code="pt2-data")
    for (kind, value), other in zip(inside, outside, strict=True):
        if kind != other[0] or (kind != "as_tensor" and value != other[1]):
            raise place.wrong(f"{shown(kind)} where the call has {shown(other[0])}", "the same", code="pt2-data")
        yield (tensor_name(value, place) if kind == "as_tensor" else ""), other


def _type(shape: tuple[int, ...], dtype: str) -> dict[str, Any]:
    return {"shape": list(shape), "dtype": dtype}


def _names(value: object) -> Iterator[str]:
    """The texts under the key ``name``, wherever they are."""
    pending = [value]
    while pending:
        current = pending.pop()
        if isinstance(current, dict):
            found = cast("dict[str, object]", current)
            if isinstance(name := found.get("name"), str):
                yield name
            pending.extend(found.values())
        elif isinstance(current, list):
            pending.extend(cast("list[object]", current))
