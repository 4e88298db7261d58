"""An exported program becoming a graph: what its signature says of inputs and outputs, and a node for every call.

What comes out is a document of format ``fx-nodes/1``, read like any other: memory that is overwritten, types and
operators are looked at where those of all graphs are. *Why sound*: an argument goes to the parameter that the archive
names (PyTorch goes by names, too), and one that is out of place is refused; every field of a node is an argument, is
known to change no value (where it comes from, devices, strides), or is refused.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, BinaryIO

from tantamount.capture.fields import Fields, Place, nearest, shown
from tantamount.capture.files import opened
from tantamount.capture.fx_json import graph_of
from tantamount.capture.graph_document import number_as_written, recorded_number
from tantamount.capture.pt2.archive import Archive, Payload
from tantamount.capture.pt2.arguments import constant_of, tensor_name
from tantamount.capture.pt2.body import GRAPH, Body, Written
from tantamount.capture.pt2.places import names_of_results
from tantamount.capture.pt2.signature import Given, Left, Signature, signature_of
from tantamount.capture.pt2.types import union
from tantamount.ir.graph import Graph
from tantamount.limits import Limits

__all__ = ["parse_pt2", "read_pt2"]

_MAJOR = 8  # of the schema: what PyTorch 2.9 to 2.13 write
_TOP = (
    "graph_module",
    "opset_version",
    "range_constraints",
    "schema_version",
    "verifiers",
    "torch_version",
    "guards_code",
)
_MODULE = ("graph", "signature", "module_call_graph", "metadata", "treespec_namedtuple_fields")


def parse_pt2(text: str, path: str, limits: Limits) -> Graph:
    """The graph of an archive; ``text`` has one character for every byte. Raises :class:`UserError` with the member
    and the node of what is wrong, or is not supported."""
    return _graph(io.BytesIO(text.encode("latin-1")), path, limits)


def read_pt2(path: Path, limits: Limits, weights: bool = False) -> Graph:
    """As :func:`parse_pt2`, of a file of which the weights are not read, however large they are. With ``weights`` they
    are: parameters and buffers are recorded constants then, and no inputs."""
    with opened(path) as file:
        return _graph(file, str(path), limits, weights)


def _graph(file: BinaryIO, path: str, limits: Limits, weights: bool = False) -> Graph:
    place = Place("graph", path, limits)
    archive = Archive.of(file, place)
    name = archive.model()
    member = f"models/{name}.json"
    top = Fields.of(archive.json(member), place.at(member), _TOP, ("graph_module", "schema_version"))
    version = Fields.of(top.get("schema_version"), top.at("schema_version"), ("major", "minor"), ("major",))
    if version.get("major") != _MAJOR:
        raise version.place.wrong(
            f"version {shown(version.get('major'))} of the schema", f"version {_MAJOR}", code="pt2-version",
            hint="export and save the program again with PyTorch 2.13",
        )  # fmt: skip
    writer = top.get("torch_version")
    module = Fields.of(top.get("graph_module"), top.at("graph_module"), _MODULE, ("graph", "signature"))
    payloads = archive.payloads("weights", name) | archive.payloads("constants", name)
    translator = _Translator(archive, signature_of(module), payloads, weights)
    origin = f"torch.export, by PyTorch {writer}" if isinstance(writer, str) else "torch.export"
    document = translator.document(module, origin)
    graph = graph_of(document, path, limits)
    held = {f"new {node.name}": node for node in graph.nodes if node.op != "call"}
    unchanged = {o.name for o in graph.outputs if o.name in translator.left and o.node == held[o.name].name}
    outputs = tuple(o for o in graph.outputs if o.name not in unchanged)
    changed = next((o for o in outputs if o.name in translator.left and held[o.name].op == "constant"), None)
    if changed is not None:
        raise place.wrong(
            f"a constant that is overwritten, {held[changed.name].target}", "constants that stay as they are",
            code="pt2-unsupported", hint="make it a buffer of the module",
        )  # fmt: skip
    if not outputs:
        raise place.wrong("nothing that it returns or changes", "tensors among the outputs", code="no-outputs")
    return replace(graph, outputs=outputs)


@dataclass
class _Translator:
    """A program on its way to a document. ``payloads`` are the tensors of the archive, by their names in the module;
    ``weights``: the state is recorded, too; ``left``: the names of outputs that are what inputs and constants hold at
    the end; ``shared``: memory that several tensors of the state have in common in part."""

    archive: Archive
    signature: Signature
    payloads: Mapping[str, Payload]
    weights: bool
    written: Written = field(default_factory=Written)
    recorded: dict[str, Any] = field(default_factory=dict[str, Any])
    left: set[str] = field(default_factory=set[str])
    shared: str = ""

    def document(self, module: Fields, origin: str) -> dict[str, Any]:
        """The whole program."""
        graph = Fields.of(
            module.get("graph"), module.at("graph"), GRAPH, ("inputs", "outputs", "nodes", "tensor_values")
        )
        body = Body(self.written, graph, {})
        self._inputs(body)
        body.run()
        if self.shared and self.written.overwrites():
            raise graph.place.wrong(
                f"state that shares the memory {shown(self.shared)} in part, in a program that overwrites tensors",
                "memory of its own for every tensor of the state", code="pt2-unsupported",
            )  # fmt: skip
        outputs = self._outputs(body, module)
        document = {
            "format": "fx-nodes/1",
            "rank": None,
            "origin": origin,
            "nodes": self.written.nodes,
            "outputs": outputs,
        }
        return {**document, "constants": self.recorded} if self.recorded else document

    # -- inputs
    def _inputs(self, body: Body) -> None:
        """State by its own names, arguments by theirs; a tensor that two names have in common is one input."""
        given = body.fields.at("inputs").list(body.fields.get("inputs"))
        specs = self.signature.inputs
        if len(given) != len(specs):
            raise body.fields.at("inputs").wrong(f"{len(given)} inputs", f"{len(specs)}, one for every entry of the "
                                                 "signature", code="pt2-data")  # fmt: skip
        for spec, value in zip(specs, given, strict=True):
            kind, own = union(value, body.fields.at("inputs"))
            if spec.kind in ("tensor", "state", "recorded") and (
                kind != "as_tensor" or tensor_name(own, body.fields.at("inputs")) != spec.name
            ):
                raise body.fields.at("inputs").wrong(
                    f"{kind} where the signature has {shown(spec.name)}", "inputs in the order of the signature",
                    code="pt2-data",
                )  # fmt: skip
        memory: dict[tuple[Any, ...], str] = {}
        used = body.used()
        for spec in sorted(
            specs, key=lambda spec: spec.kind == "recorded" or (self.weights and spec.kind == "state")
        ):  # constants after inputs
            if spec.kind == "recorded":
                if spec.name in used:
                    body.names[spec.name] = self._recorded(body, spec)
            elif spec.kind == "state":
                payload = self._payload(body, spec)
                key = (payload.memory, payload.layout)
                if key not in memory and self.weights:
                    memory[key] = self._recorded(body, spec)
                elif key not in memory:
                    memory[key] = self._placeholder(body, spec, spec.target)
                body.names[spec.name] = memory[key]
            elif spec.kind == "tensor":
                body.names[spec.name] = self._placeholder(body, spec, spec.name)
            elif spec.name in used:
                raise spec.place.wrong(f"an input that is {spec.kind}", "tensors", code="pt2-unsupported")
        places = [place for place, _ in memory]
        self.shared = next((place for place in places if places.count(place) > 1), "")

    def _placeholder(self, body: Body, spec: Given, name: str) -> str:
        type_ = body.layout(spec.name, spec.place).type
        entry = {"name": self.written.fresh(name), "op": "placeholder", "target": name}
        self.written.nodes.append({**entry, "shape": list(type_.shape), "dtype": type_.dtype.label})
        return entry["name"]

    def _payload(self, body: Body, spec: Given) -> Payload:
        """The tensor of the module behind an input."""
        payload = self.payloads.get(spec.target)
        if payload is None:
            raise spec.place.wrong(f"{shown(spec.target)}, which the archive does not have", "a tensor of the archive",
                                   code="pt2-data", hint=nearest(spec.target, self.payloads))  # fmt: skip
        if payload.layout is None or payload.pickled:
            raise spec.place.wrong(
                f"{shown(spec.target)}, which is kept as a pickle", "a plain tensor", code="pt2-unsupported",
                hint="a pickle can run any code when it is opened: use plain tensors, not subclasses of them",
            )  # fmt: skip
        own = body.layout(spec.name, spec.place).type
        if payload.layout.type != own:
            raise spec.place.wrong(f"{own}", f"{payload.layout.type}, the type on record", code="pt2-data")
        return payload

    def _recorded(self, body: Body, spec: Given) -> str:
        """A constant, with its numbers."""
        payload = self._payload(body, spec)
        type_ = body.layout(spec.name, spec.place).type
        values = self.archive.numbers(payload, spec.place)
        shape = {"shape": list(type_.shape), "dtype": type_.dtype.label}
        numbers = [number_as_written(value) for value in values.reshape(-1).tolist()]
        self.recorded[spec.target] = {**shape, "data": numbers}
        name = self.written.fresh(spec.name if spec.kind == "recorded" else spec.target)
        self.written.nodes.append({"name": name, "op": "get_attr", "target": spec.target, **shape})
        return name

    def _number(self, number: complex, result: str) -> str:
        """A number that is a result, as a tensor of one."""
        name = self.written.fresh(f"number {result}")
        node, self.recorded[name] = recorded_number(name, number)
        self.written.nodes.append(node)
        return name

    # -- outputs
    def _outputs(self, body: Body, module: Fields) -> list[dict[str, str]]:
        """The tensors that the program returns, by names in its containers, and those that it leaves in inputs."""
        place = body.fields.at("outputs")
        given = place.list(body.fields.get("outputs"))
        specs = self.signature.outputs
        if len(given) != len(specs):
            raise place.wrong(f"{len(given)} outputs", f"{len(specs)}, as the signature has", code="pt2-data")
        returned = sum(spec.kind == "returned" for spec in specs)
        names = _names_of_results(module, returned)
        found: list[dict[str, str]] = []
        position = 0
        for spec, value in zip(specs, given, strict=True):
            kind, own = union(value, place)
            name = spec.target
            if spec.kind == "returned":
                name, position = names[position], position + 1
                if name.startswith(("new ", "grad ")):  # which are names of what inputs hold at the end
                    name = f"returned {name}"
            elif spec.kind == "new":
                name = f"new {self._of(body, spec)}"
            elif spec.kind == "grad":
                name = f"grad {self._of(body, spec)}"
            elif spec.kind == "loss":
                name = "loss"
            if kind == "as_tensor":
                node = body.node(tensor_name(own, place), place)
                found.append({"name": name, "node": node})
            elif spec.kind != "returned":
                raise place.wrong(f"{shown(kind)} as {spec.kind}", "a tensor", code="pt2-data")
            elif kind.startswith("as_sym"):
                raise place.wrong("a number that the program computes", "tensors and constants", code="pt2-symbolic")
            elif isinstance(number := constant_of(value, place), (bool, int, float, complex)):  # as much a result
                found.append({"name": name, "node": self._number(number, name)})
        if self.written.overwrites():  # what an input holds at the end is found where memory is followed
            known = {entry["name"] for entry in found}
            for node in self.written.nodes:
                name = f"new {node['name']}"
                if node["op"] != "call_function" and name not in known:
                    self.left.add(name)
                    found.append({"name": name, "node": node["name"]})
        return found

    def _of(self, body: Body, spec: Left) -> str:
        """The name of the input that an output is a new value or the gradient of."""
        return body.names.get(spec.target, spec.target) if spec.of_argument else spec.target


def _names_of_results(module: Fields, count: int) -> list[str]:
    """The names of what the program returns: those in its containers, else numbers."""
    fields: dict[str, list[str]] = {}
    named = module.at("treespec_namedtuple_fields")
    for key, value in named.table(module.values.get("treespec_namedtuple_fields", {})).items():
        one = Fields.of(value, named, ("field_names",), ("field_names",))
        fields[key] = [named.string(name) for name in named.list(one.get("field_names"))]
    place = module.at("module_call_graph")
    for entry in place.list(module.values.get("module_call_graph", [])):
        call = place.table(entry)
        if call.get("fqn") == "" and call.get("signature") is not None:
            structure = place.table(call.get("signature")).get("out_spec")
            names = names_of_results(structure, fields, place.at("out_spec"))
            if len(names) == count:
                return names
            raise place.wrong(f"{len(names)} results", f"{count}, as the signature has", code="pt2-data")
    return [str(k) for k in range(count)] if count != 1 else ["output"]
