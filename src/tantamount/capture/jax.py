"""Capturing JAX programs: what one device computes, and what XLA's SPMD partitioner makes of it for every device.

The program of one device is the HLO that JAX lowers to. That of the ranks is compiled for the devices of a mesh, and
taken from a dump right after the partitioner: local shapes and collectives, one program for all ranks, before any
rewriting that is not about sharding. The dump is asked for by options of this one compilation, into a folder of its
own: no environment variable, no global setting.
"""

# pyright: basic
from __future__ import annotations

import inspect
import json
import linecache
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from tantamount.capture.fields import Place
from tantamount.capture.fx_json import parse_graph
from tantamount.capture.graph_document import graph_document
from tantamount.capture.hlo import parse_hlo
from tantamount.capture.programs import Program, Ranks
from tantamount.capture.rank_integers import with_rank_integers
from tantamount.capture.spelled_groups import with_groups
from tantamount.capture.torch.tiles import Tile, expression_of, placement_of
from tantamount.errors import UserError
from tantamount.ir.graph import Graph, Node, Output, Ref, Source
from tantamount.ir.mesh import Mesh
from tantamount.limits import limits_from_environment

__all__ = ["capture_jax", "capture_jax_ranks", "leaves_of", "zeros_like"]

# A sharding constraint is a wish about layout: of one device's program it asks nothing.
_CONSTRAINT = re.compile(r'custom-call\(([^()\s]+)\), custom_call_target="Sharding"')
_DUMP = {"xla_dump_hlo_pass_re": "spmd-partition.*", "xla_dump_large_constants": True}


def capture_jax(
    function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
) -> Program:
    """The program that ``function(*args, **kwargs)`` is on one device.

    ``args`` are arrays, or ``jax.ShapeDtypeStruct``: values are not used. Inputs are named by the function's parameters
    and the paths into them (``params.up``); the output is ``output``, or its elements by their paths. Shardings of
    arguments, and sharding constraints in the function, are left out; so is what ``jax.jit`` around it says about them.
    Raises :class:`UserError` for programs that JAX cannot trace or that are not supported (see the page on HLO)."""
    plain = getattr(function, "__wrapped__", function) if _is_jitted(function) else function
    one = jax.tree.map(_without_sharding, (tuple(args), dict(kwargs or {})))
    lowered = _lowered(jax.jit(plain, keep_unused=True), one)
    text = _CONSTRAINT.sub(r"copy(\1)", lowered.as_text("hlo", debug_info=True))
    return _program(_named(text, "the JAX program", _inputs(plain, one), _outputs(lowered)))


def capture_jax_ranks(
    function: Callable[..., Any],
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    mesh: jax.sharding.Mesh,
    in_shardings: Any = None,
    out_shardings: Any = None,
) -> Ranks:
    """The program that every device of ``mesh`` runs when ``function(*args, **kwargs)`` is partitioned.

    ``args`` are whole arrays or ``jax.ShapeDtypeStruct``. Shardings are as for ``jax.jit``, or trees of
    ``PartitionSpec``; without them, those of the arguments, of the constraints in the function or of ``shard_map``
    count, and JAX chooses the rest; a function that ``jax.jit`` returned has its own. How every input is cut, and how
    every output is expected to be, is read from the compiled program. Ranks are the devices of the mesh, row by row.
    Raises :class:`UserError` for what JAX refuses or is not supported."""
    given = (tuple(args), dict(kwargs or {}))
    shardings = {
        key: jax.tree.map(lambda item: _sharding(item, mesh), tree, is_leaf=_is_spec)
        for key, tree in (("in_shardings", in_shardings), ("out_shardings", out_shardings))
        if tree is not None
    }
    jitted = function
    if shardings or not _is_jitted(function):
        jitted = jax.jit(function, keep_unused=True, **shardings)
    lowered = _lowered(jitted, given)
    compiled, text = _partitioned(lowered, mesh)
    inputs, outputs = _inputs(function, given), _outputs(lowered)
    graph = _named(text, "the partitioned JAX program", inputs, outputs)
    axes = Mesh({str(axis): size for axis, size in mesh.shape.items()})
    spelled = with_groups(axes, (graph,), Place("job", "capture_jax_ranks", limits_from_environment())).groups
    names = {name: "+".join(along) or "self" for name, along in spelled.items()}
    whole = Mesh(axes.axes, {names[name]: along for name, along in spelled.items()})
    nodes = tuple(_in_group(node, names) for node in graph.nodes)
    graphs = with_rank_integers(replace(graph, nodes=nodes, groups={}, ranks=None), whole)
    programs = {id(each): _program(each) for each in graphs}
    return Ranks(
        tuple(programs[id(each)] for each in graphs),
        whole,
        _relations(inputs, lowered.args_info, compiled.input_shardings, mesh, whole),
        _relations(outputs, lowered.out_info, compiled.output_shardings, mesh, whole),
    )


# ---------------------------------------------------------------------------------------------- JAX
def _without_sharding(leaf: Any) -> Any:
    """The type of an array; Python's numbers as they are, for their types are weak."""
    return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) if hasattr(leaf, "dtype") else leaf


def _is_jitted(function: Any) -> bool:
    return hasattr(function, "lower")


def _is_spec(item: Any) -> bool:
    return item is None or isinstance(item, jax.sharding.PartitionSpec | jax.sharding.Sharding)


def _sharding(item: Any, mesh: jax.sharding.Mesh) -> Any:
    return jax.sharding.NamedSharding(mesh, item) if isinstance(item, jax.sharding.PartitionSpec) else item


def _lowered(jitted: Any, given: tuple[tuple[Any, ...], dict[str, Any]]) -> Any:
    try:
        return jitted.lower(*given[0], **given[1])
    except Exception as problem:  # whatever the user's function, or JAX about it, raises
        raise _refused("lower", problem) from problem


def _refused(step: str, problem: Exception) -> UserError:
    first = next(iter(str(problem).strip().splitlines()), "")
    return UserError(
        "capture-jax", place=f"jax.jit(...).{step}", found=f"{type(problem).__name__}: {first}"[:400],
        needed="a function that JAX can trace, partition and compile for these arguments and shardings",
    )  # fmt: skip


def _partitioned(lowered: Any, mesh: jax.sharding.Mesh) -> tuple[Any, str]:
    """The compiled program, and the text of its module after the SPMD partitioner."""
    with tempfile.TemporaryDirectory(prefix="tantamount-") as folder:
        try:
            compiled = lowered.compile(compiler_options={**_DUMP, "xla_dump_to": folder})
        except Exception as problem:
            raise _refused("compile", problem) from problem
        found = sorted(Path(folder).glob("*after_spmd-partitioning*.txt"))
        devices = compiled.runtime_executable().local_devices()
        if len(found) != 1 or list(mesh.devices.flat) != devices:
            raise UserError(
                "capture-jax", place="capture_jax_ranks",
                found=f"{len(found)} partitioned programs, for the devices {[device.id for device in devices]}",
                needed=f"one, for the devices of the mesh, {[device.id for device in mesh.devices.flat]}",
                hint="shard something over the mesh, of two devices or more; turn JAX's compilation cache off",
            )  # fmt: skip
        return compiled, found[0].read_text(encoding="utf-8")


# ---------------------------------------------------------------------------------------------- names
def _inputs(function: Callable[..., Any], given: tuple[tuple[Any, ...], dict[str, Any]]) -> list[str]:
    """The names of the leaves of the arguments, in JAX's order."""
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    parameters = [name for name, item in inspect.signature(function).parameters.items() if item.kind in kinds]
    names: list[str] = []
    for path, _ in jax.tree_util.tree_leaves_with_path(given):
        which, argument, *rest = path
        is_named = which.idx == 0 and argument.idx < len(parameters)
        first = parameters[argument.idx] if is_named else str(getattr(argument, "key", getattr(argument, "idx", "")))
        names.append(".".join([first, _path(rest)] if rest else [first]))
    return names


def _outputs(lowered: Any) -> list[str]:
    return [_path(path) or "output" for path, _ in jax.tree_util.tree_leaves_with_path(lowered.out_info)]


def _path(path: Sequence[Any]) -> str:
    return jax.tree_util.keystr(tuple(path), simple=True, separator=".")


def leaves_of(tree: Any) -> list[tuple[str, Any]]:
    """The leaves of a tree of arrays with their paths, ``mlp.up`` or empty, in JAX's order."""
    return [(_path(path), leaf) for path, leaf in jax.tree_util.tree_leaves_with_path(tree)]


def zeros_like(tree: Any) -> Any:
    """A tree of NumPy arrays of zeros in float64 with the shapes of another."""
    return jax.tree.map(lambda leaf: np.zeros(leaf.shape), tree)


def _named(text: str, path: str, inputs: Sequence[str], outputs: Sequence[str]) -> Graph:
    """The graph in HLO text, with the names of the user's program."""
    graph = parse_hlo(text, path, limits_from_environment())
    found = [node.name for node in graph.inputs]
    for what, names, there in (("arguments", inputs, found), ("results", outputs, graph.outputs)):
        if len(set(names)) != len(names) or len(names) != len(there):
            raise UserError(
                "capture-jax", place=path, found=f"{len(there)} for the {what} {', '.join(names) or '(none)'}",
                needed="one each, with a name of its own",
                hint="jax.jit(..., keep_unused=True) keeps arguments that are not used",
            )  # fmt: skip
    renamed = dict(zip(found, inputs, strict=True))
    taken = set(inputs)
    for node in graph.nodes:
        name = node.name
        if name not in renamed:
            while name in taken:
                name += "'"
            taken.add(name)
            renamed[node.name] = name
    nodes = tuple(
        replace(
            node,
            name=renamed[node.name],
            target=renamed[node.name] if node.op != "call" else node.target,
            args=tuple(_references(argument, renamed) for argument in node.args),
            kwargs={key: _references(argument, renamed) for key, argument in node.kwargs.items()},
            source=_source(node.source),
        )
        for node in graph.nodes
    )
    constants = {renamed[name]: constant for name, constant in graph.constants.items()}
    pairs = zip(outputs, graph.outputs, strict=True)
    return replace(
        graph, nodes=nodes, constants=constants,
        outputs=tuple(Output(name, renamed[output.node]) for name, output in pairs),
    )  # fmt: skip


def _references(argument: Any, renamed: Mapping[str, str]) -> Any:
    if isinstance(argument, Ref):
        return Ref(renamed[argument.name])
    return tuple(_references(item, renamed) for item in argument) if isinstance(argument, tuple) else argument


def _source(source: Source | None) -> Source | None:
    """The user's line; that of the forward pass, and said so, for what differentiation made of it."""
    if source is None or not source.file:
        return source
    name = source.function.replace("<locals>.", "")
    function = f"backward: {name}" if "transpose(" in source.text else name
    path = Path(source.file)
    file = str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else source.file
    return Source(file, source.line, function, linecache.getline(source.file, source.line).strip() or source.text)


def _in_group(node: Node, names: Mapping[str, str]) -> Node:
    group = node.kwargs.get("group")
    return replace(node, kwargs={**node.kwargs, "group": names[group]}) if isinstance(group, str) else node


def _program(graph: Graph) -> Program:
    document = graph_document(
        replace(graph, origin=f"{graph.origin}, captured by Tantamount with JAX {jax.__version__}")
    )
    return Program(parse_graph(json.dumps(document), graph.path, limits_from_environment()), document)


# ---------------------------------------------------------------------------------------------- shardings
def _relations(names: Sequence[str], types: Any, shardings: Any, mesh: Any, whole: Mesh) -> dict[str, Any]:
    leaves = zip(names, jax.tree.leaves(types), jax.tree.leaves(shardings), strict=True)
    return {name: _relation(name, type_.shape, sharding, mesh, whole) for name, type_, sharding in leaves}


def _relation(name: str, shape: tuple[int, ...], sharding: Any, mesh: Any, whole: Mesh) -> Any:
    """One placement per mesh axis; an expression where a dimension is cut in another order."""
    if getattr(getattr(sharding, "spec", None), "unreduced", None):
        raise UserError(
            "capture-jax", place=name, found=f"the sharding {sharding.spec}", needed="one that leaves nothing unreduced"
        )
    held = sharding.devices_indices_map(shape)
    tiles: list[Tile] = []
    for rank, device in enumerate(mesh.devices.flat):
        box = tuple(piece.indices(size)[:2] for piece, size in zip(held[device], shape, strict=True))
        local = tuple(stop - start for start, stop in box)
        tiles.append(Tile(box, rank, name, tuple((0, size) for size in local), local))
    return placement_of(tiles, name, shape, whole) or expression_of(tiles, name, shape)
