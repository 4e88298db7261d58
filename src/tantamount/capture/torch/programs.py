"""``capture`` and ``capture_ranks``: what users call."""

# pyright: basic
from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import torch
from torch import fx, nn
from torch.export import ExportedProgram

from tantamount.capture.fx_json import parse_graph
from tantamount.capture.programs import Program, Ranks
from tantamount.capture.torch.collectives import drop_lone_collectives
from tantamount.capture.torch.dynamic import Dynamic, Sizes, widen
from tantamount.capture.torch.exported import example_arguments, exported, load
from tantamount.capture.torch.fx_document import fx_document
from tantamount.capture.torch.group_order import check_order_of_groups
from tantamount.capture.torch.hooks import registered
from tantamount.capture.torch.kernels import ShardedAttention
from tantamount.capture.torch.objects import Exchange, Lone, in_turn
from tantamount.capture.torch.pipelines import stages_without_vote
from tantamount.capture.torch.placements import Layout
from tantamount.capture.torch.problems import line_of, said
from tantamount.capture.torch.python_state import held, reachable, roots_of
from tantamount.capture.torch.ranks import groups, simulated
from tantamount.capture.torch.relations import axes_of_name, group_names, mesh_of, relation
from tantamount.capture.torch.tracing import Traced, trace
from tantamount.errors import UserError
from tantamount.ir.mesh import Mesh
from tantamount.limits import limits_from_environment

__all__ = ["capture", "capture_alone", "capture_rank", "capture_ranks", "trace_rank"]

Modules = nn.Module | Mapping[str, nn.Module] | Sequence[nn.Module] | None


def capture(
    function: Callable[..., Any] | nn.Module | ExportedProgram | str | Path,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    modules: Modules = None,
    optimizers: Sequence[torch.optim.Optimizer] | torch.optim.Optimizer = (),
    dynamic: Dynamic | None = None,
) -> Program:
    """The program that ``function(*args, **kwargs)`` runs on one device.

    Inputs are the tensors among the arguments and the parameters and buffers of the modules, under their own names.
    Outputs are what the function returns, the gradients it leaves (``grad layers.0.weight``), and the new values of
    state that it changes (``new layers.0.weight``): a module gives a forward pass, a function that calls ``backward()``
    a forward and backward pass, one that calls ``optimizer.step()`` a training step. ``modules`` are those that the
    function uses (found by themselves if it is a module or refers to them by name); values of tensors are not used, so
    a model on the meta device will do. What ``torch.export`` captured is taken as it is, without arguments: an
    exported program, the path of a saved one (``.pt2``, only if you trust it), a graph module with shapes on record.
    ``dynamic`` names sizes of arguments that stay symbols, ``{"tokens": {0: "B", 1: "S"}}``: what is then proved holds
    for all of them (a ``torch.export.Dim`` instead of a name says a range). So it names arguments that are numbers,
    ``{"offset": "K"}``: a whole number from 0 on, or any real number.
    Raises :class:`UserError` for what cannot be captured."""

    def run(hints: Mapping[str, int] | None = None) -> Traced:
        return _trace(function, args, kwargs or {}, modules, optimizers, dynamic, hints)

    return _program(_widened(run(), run), None, {})


def capture_ranks(
    build: Callable[[int], Any],
    world_size: int,
    *,
    mesh: Mapping[str, int] | None = None,
    dynamic: Dynamic | None = None,
) -> Ranks:
    """The programs of all ranks, simulated one after the other in this process; nothing is communicated.

    ``build(rank)`` runs with ``torch.distributed`` initialised as that rank, and returns ``(function, args)`` or
    ``(function, args, options)``: a function or module as in :func:`capture`, its local arguments, and a table of
    ``kwargs``, ``modules``, ``optimizers``. ``mesh`` names the axes (``{"dp": 2, "tp": 4}``, ranks row-major); without
    it, that of the DTensors. ``dynamic`` as in :func:`capture`, for the arguments of every rank. Objects that ranks
    give each other (``dist.all_gather_object``) are exchanged: a rank that waits for another's is built once more.
    Raises :class:`UserError` for what cannot be captured."""
    if world_size < 1:
        raise UserError("capture-mesh", place="capture_ranks", found=f"world_size = {world_size}", needed="1 or more")
    exchange = Exchange()

    def one(rank: int) -> tuple[Traced, dict[str, tuple[int, ...]]]:
        members: dict[str, tuple[int, ...]] = {}

        def run(hints: Mapping[str, int] | None = None) -> Traced:
            traced, own = _rank(build, rank, world_size, dynamic, hints, exchange)
            members.update(own)
            return traced

        return _widened(run(), run), members

    found = in_turn(range(world_size), one, exchange)
    check_order_of_groups([(traced.module.graph, members) for traced, members in found])
    layouts = [leaf.layout for traced, _ in found for leaf in (*traced.inputs, *traced.outputs) if leaf.layout]
    whole = mesh_of(layouts, world_size, mesh)
    if whole.world_size != world_size:
        raise UserError(
            "capture-mesh", place="capture_ranks", found=f"mesh {dict(whole.axes)}", needed=f"{world_size} ranks"
        )
    programs: list[Program] = []
    used: set[str] = set()
    for rank, (traced, members) in enumerate(found):
        names = group_names(whole, rank, members, _group_uses(traced, set(members)))
        used |= set(names.values())
        programs.append(_program(traced, rank, names))
    full = Mesh(whole.axes, {name: axes_of_name(name) for name in sorted(used)})
    inputs = _relations([traced.inputs for traced, _ in found], full, world_size)
    outputs = _relations([traced.outputs for traced, _ in found], full, world_size)
    return Ranks(tuple(programs), full, inputs, outputs)


def capture_alone(build: Callable[[int], Any]) -> Program:
    """The program that ``build(0)`` makes, run by the only rank of a world of one: the program of one device, of code
    that cannot do without process groups."""
    traced, _ = _rank(build, 0, 1)
    return _program(traced, None, {})


def capture_rank(build: Callable[[int], Any], rank: int, mesh: Mapping[str, int]) -> Program:
    """The program of one rank of a mesh, whatever the number of the others; ``build`` as in :func:`capture_ranks`.
    What it names no rank in may stand for all that run the same."""
    program, _, _ = trace_rank(build, rank, mesh)
    return program


def trace_rank(
    build: Callable[[int], Any],
    rank: int,
    mesh: Mapping[str, int],
    rewrite: Callable[[fx.Graph], None] | None = None,
) -> tuple[Program, Traced, dict[str, str]]:
    """As :func:`capture_rank`; and what was traced, with the layouts of DTensors, and the names of the process groups
    that the program uses, by PyTorch's names. ``rewrite`` may change the graph into an equal one."""
    whole = Mesh(mesh)
    traced, members = _rank(build, rank, whole.world_size)
    if rewrite is not None:
        rewrite(traced.module.graph)
    names = group_names(whole, rank, members, _group_uses(traced, set(members)))
    return _program(traced, None, names), traced, names


def _rank(
    build: Callable[[int], Any],
    rank: int,
    world_size: int,
    dynamic: Dynamic | None = None,
    hints: Mapping[str, int] | None = None,
    exchange: Exchange | None = None,
) -> tuple[Traced, dict[str, tuple[int, ...]]]:
    """The program of one rank, and its process groups."""
    with simulated(rank, world_size), stages_without_vote(), (exchange or Lone()).one_rank():
        function, args, options = _built(_build(build, rank))
        with ShardedAttention():
            traced = _trace(function, args, options.pop("kwargs", {}), dynamic=dynamic, hints=hints, **options)
        members = groups()
        drop_lone_collectives(traced.module.graph, {name for name, ranks in members.items() if len(ranks) == 1})
        return traced, members


def _build(build: Callable[[int], Any], rank: int) -> Any:
    try:
        return build(rank)
    except UserError:
        raise
    except Exception as problem:
        raise UserError(
            "capture-build", place=f"capture_ranks: build({rank}){line_of(problem)}", found=said(problem),
            needed="a function that builds the program of one rank", hint=_build_hint(str(problem)),
        ) from problem  # fmt: skip


def _build_hint(text: str) -> str:
    if "only be applied to a module once" in text:
        return "make a new module inside build: every rank needs its own"
    if "without mesh_dim_names" in text:
        return 'name the axes: init_device_mesh("cpu", (2, 2), mesh_dim_names=("dp", "tp"))'
    if "bigger than default world size" in text:
        return "the world size is the second argument of capture_ranks"
    return ""


def _built(built: Any) -> tuple[Any, Sequence[Any], dict[str, Any]]:
    options: dict[str, Any] = {}
    if isinstance(built, tuple) and len(built) in (2, 3):
        function, args = built[0], built[1]
        options = dict(built[2]) if len(built) == 3 else {}
        if (
            isinstance(args, list | tuple)
            and callable(function)
            and set(options) <= {"kwargs", "modules", "optimizers"}
        ):
            return function, args, options
    raise UserError(
        "capture-build", place="capture_ranks: build(rank)", found=f"{type(built).__name__}",
        needed="(function or module, args) or (function or module, args, {kwargs, modules, optimizers})",
    )  # fmt: skip


def _trace(
    function: Any,
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    modules: Modules = None,
    optimizers: Sequence[torch.optim.Optimizer] | torch.optim.Optimizer = (),
    dynamic: Dynamic | None = None,
    hints: Mapping[str, int] | None = None,
) -> Traced:
    if isinstance(function, str | Path):
        function = load(Path(function))
    if isinstance(function, ExportedProgram):
        if dynamic:
            raise UserError(
                "capture-dynamic", place="an exported program", found="sizes that should be symbols",
                needed="the function or module itself: what was exported has the sizes that it was exported with",
            )  # fmt: skip
        if args or kwargs:
            raise UserError(
                "capture", place="an exported program", found="arguments", needed="none: its shapes are fixed"
            )
        return exported(function)
    if isinstance(function, fx.GraphModule) and not args and not kwargs:
        args = example_arguments(function)
    if not isinstance(args, list | tuple):
        raise UserError("capture", place="args", found=type(args).__name__, needed="a tuple of arguments, such as (x,)")
    if not callable(function):
        raise UserError(
            "capture", place="capture", found=f"a {type(function).__name__}",
            needed="a function, a module, an exported program or the path of one",
        )  # fmt: skip
    chosen = (optimizers,) if isinstance(optimizers, torch.optim.Optimizer) else tuple(optimizers)
    known = _modules(function, modules)
    return trace(function, args, kwargs, known, chosen or _found_optimizers(function, known), dynamic, hints)


def _modules(function: Any, modules: Modules) -> dict[str, nn.Module]:
    """Modules by the prefix of their names; one module alone has none."""
    if modules is None:
        if isinstance(function, nn.Module):
            return {"": function}
        owner = getattr(function, "__self__", None)
        if isinstance(owner, nn.Module):
            return {"": owner}
        known = {**_closure(function), **vars(owner)} if hasattr(owner, "__dict__") else _closure(function)
        modules = {name: value for name, value in known.items() if isinstance(value, nn.Module)}
        kept = {
            name: m for name, m in modules.items() if not any(m is not o and _inside(m, o) for o in modules.values())
        }
        modules = kept
    if isinstance(modules, nn.Module):
        return {"": modules}
    named = dict(modules) if isinstance(modules, Mapping) else {str(k): module for k, module in enumerate(modules)}
    if len(named) == 1:
        return {"": next(iter(named.values()))}
    return {f"{name}." if name else "": module for name, module in named.items()}


def _inside(module: nn.Module, other: nn.Module) -> bool:
    return any(module is inner for inner in other.modules())


def _closure(function: Any) -> dict[str, Any]:
    """The objects that a Python function refers to by name: its closure, the globals in its code, and its defaults."""
    import inspect

    function = inspect.unwrap(getattr(function, "__func__", function))
    if not inspect.isfunction(function):
        return {}
    found = inspect.getclosurevars(function)
    return {**found.globals, **found.nonlocals}


def _found_optimizers(function: Any, modules: Mapping[str, nn.Module]) -> tuple[torch.optim.Optimizer, ...]:
    """Optimizers that a function refers to, or its object; and those below them, in containers and in what hooks refer
    to, that have a parameter of the modules."""
    if isinstance(function, nn.Module):
        return ()
    owner = getattr(function, "__self__", None)
    values = [*_closure(function).values(), *(vars(owner).values() if hasattr(owner, "__dict__") else ())]
    parameters = [(name, x) for module in modules.values() for name, x in module.named_parameters()]
    own = {id(parameter) for _, parameter in parameters}
    hooks = [(name, hook) for (name, _), hook in registered(parameters, modules, ()).items()]
    for _, holder in reachable([*roots_of(function, modules), *hooks]):
        for _, value in held(holder):
            if isinstance(value, torch.optim.Optimizer):
                values += [value] if own & {id(p) for group in value.param_groups for p in group["params"]} else []
    found = {id(value): value for value in values if isinstance(value, torch.optim.Optimizer)}
    return tuple(found.values())


def _document(traced: Traced, rank: int | None, names: Mapping[str, str]) -> dict[str, Any]:
    return fx_document(
        traced.module, [leaf.name for leaf in traced.inputs], [leaf.name for leaf in traced.outputs], rank, names,
        traced.sizes,
    )  # fmt: skip


def _widened(traced: Traced, run: Callable[[Mapping[str, int]], Traced]) -> Traced:
    """The program, whose sizes are all those at which it is found to be the same."""

    def bare(found: Traced) -> dict[str, Any]:
        return {key: value for key, value in _document(found, None, {}).items() if key != "sizes"}

    def again(hints: Mapping[str, int]) -> tuple[Sizes, dict[str, Any]]:
        found = run(hints)
        document = bare(found)
        return cast("Sizes", found.sizes), document

    if traced.sizes is not None:
        widen(traced.sizes, bare(traced), again)
    return traced


def _program(traced: Traced, rank: int | None, names: Mapping[str, str]) -> Program:
    document = _document(traced, rank, names)
    path = "the captured program" if rank is None else f"the captured program of rank {rank}"
    graph = parse_graph(json.dumps(document), path, limits_from_environment())
    return Program(graph, document, traced.aliases, traced.values)


def _group_uses(traced: Traced, known: set[str]) -> set[str]:
    """The process groups that a graph's collectives name."""
    return {
        argument
        for node in traced.module.graph.nodes
        if node.op == "call_function" and "c10d" in str(node.target)
        for argument in (*node.args, *node.kwargs.values())
        if isinstance(argument, str) and argument in known
    }


def _relations(leaves: Sequence[Sequence[Any]], mesh: Mesh, world_size: int) -> dict[str, Any]:
    """The relation of every DTensor, where the ranks that have it agree."""
    found: dict[str, Any] = {}
    for rank in leaves:
        for leaf in rank:
            layout: Layout | None = leaf.layout
            if layout is None:
                continue
            stated = relation(layout, mesh, world_size)
            if found.setdefault(leaf.name, stated) != stated:
                raise UserError(
                    "capture-placement", place=leaf.name, found=f"{found[leaf.name]} on one rank, {stated} on another",
                    needed="one placement of a tensor on all ranks",
                )  # fmt: skip
    return found
