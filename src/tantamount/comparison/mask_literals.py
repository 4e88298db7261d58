"""Finite literals that stand for -inf in an attention mask: ``finfo.min``, -1e9, -1e4.

``softmax(scores + where(keep, 0, -1e9))`` is not ``softmax(scores + where(keep, 0, -inf))`` over the reals: each masked
element has a weight of about ``exp(-1e9)`` in the one and none in the other. In floating point both weights are 0 where
the scores of a row differ by less than the literal less 746 (``exp(-746)`` is 0 in float64). Under that bound the
literal is -inf, if

* which elements it masks depends on no input: it is known, by execution;
* it reaches a softmax along one dimension and nothing else, through additions, selections, layout, positive factors and
  (ATen's) concatenations; and the greatest element of each row, which is subtracted from the row before that softmax;
* every row of that softmax keeps an element: where none is kept, a finite literal gives equal weights, and -inf NaN;
* what is kept is the same with either.

A softmax that is written out (by JAX) is ``exp(x - max(x))`` and what follows: the greatest element of a row is one
that is kept, whatever the literal, and the exponential of a masked one is 0 in floating point under the same bound.
Nothing else may read ``x`` but what takes the greatest elements of its rows (they are the same with either), and
nothing but exponentials the difference.

Then the literal is replaced, and the assumption ``mask-literals`` says so. A literal that fails one of these stays what
it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf, isfinite, prod

import numpy as np

from tantamount.errors import TantamountError
from tantamount.ir.graph import Argument, Constant, Graph, Node, Output, Ref, references
from tantamount.ir.job import Job
from tantamount.ir.types import TensorType
from tantamount.semantics.interpret import Evaluation, interpret
from tantamount.semantics.reference import Array
from tantamount.verdict import Assumption

__all__ = ["with_masks_of_infinity"]

_LARGEST = -1e4  # a literal above it does not mask for sure: exp(-100) is a number
_UNDERFLOW = 746  # exp(-746) is 0 in float64
_ELEMENTS = 1 << 24  # of one softmax that is looked at
_SITES = frozenset({"full", "full_like", "new_full", "scalar_tensor", "masked_fill", "where", "fill"})
_LAYOUT = frozenset(
    {
        "view", "_unsafe_view", "reshape", "expand", "unsqueeze", "squeeze", "permute", "transpose", "t", "slice",
        "select", "clone", "contiguous", "alias", "detach", "lift_fresh_copy", "lift_fresh",
    }
)  # fmt: skip
_LAYOUT_OF_HLO = ("hlo.broadcast", "hlo.reshape", "hlo.transpose", "hlo.slice")
_SOFTMAX = {"aten._softmax.default": 1, "aten.softmax.int": 1}  # and where the dimension is
_MASKED_ATTENTION = {
    "aten.scaled_dot_product_attention.default": (3, "attn_mask"),
    "aten._scaled_dot_product_flash_attention_for_cpu.default": (5, "attn_mask"),
}


def with_masks_of_infinity(job: Job) -> tuple[Job, tuple[Assumption, ...]]:
    """The job with -inf for every literal that stands for it, and the assumption that it does (none, if none does)."""
    found = {id(graph): _rewritten(graph) for graph in (job.specification, *job.implementation)}
    sites = [site for done in found.values() for site in done.sites]
    if not sites:
        return job, ()
    gap = min(done.gap for done in found.values())
    literals = ", ".join(f"{value:.6g}" for value in sorted({site.value for site in sites}))
    text = (
        f"{literals} in an attention mask stand for -inf: without the mask, the scores of one row differ by less than "
        f"{gap - _UNDERFLOW:.6g} (checked: every row keeps an element, and nothing but the softmax reads them)"
    )
    places = tuple(dict.fromkeys(site.node for site in sites))
    ranks = tuple(found[id(graph)].graph for graph in job.implementation)
    changed = replace(job, specification=found[id(job.specification)].graph, implementation=ranks)
    return changed, (Assumption("mask-literals", text, places),)


@dataclass(frozen=True)
class _Site:
    """A literal: the node that has it, and where among its arguments (``None``: in its recorded value)."""

    node: str
    position: int | str | None
    value: float


@dataclass(frozen=True)
class _Done:
    """A graph with -inf for the literals that stand for it, and these. ``gap``: by how much, at least, a masked element
    of a row lies below those that are kept, where all scores are 0."""

    graph: Graph
    sites: tuple[_Site, ...] = ()
    gap: float = inf


def _rewritten(graph: Graph) -> _Done:
    sites = [*_sites(graph)]
    while sites:
        changed = _replaced(graph, sites)
        check = _Check(graph, changed)
        try:
            bad = check.problems(sites)
        except TantamountError:
            return _Done(graph)
        if not bad:
            return _Done(changed, tuple(sites), check.gap)
        sites = [site for site in sites if not any(site.node in graph.ancestors(name) for name in bad)]
    return _Done(graph)


def _sites(graph: Graph) -> Iterator[_Site]:
    """Every literal that may stand for -inf."""
    for node in graph.nodes:
        if node.op == "constant" and node.target in graph.constants:
            constant = graph.constants[node.target]
            found = [x for value in constant.data if (x := _low(value)) is not None]
            if found and constant.type.dtype.is_float:
                yield _Site(node.name, None, max(found))
        elif (
            node.op == "call"
            and (_base(node) in _SITES or node.target == "hlo.constant")
            and (node.type is None or node.type.dtype.is_float)
        ):
            for position, value in (*enumerate(node.args), *node.kwargs.items()):
                if (low := _low(value)) is not None:
                    yield _Site(node.name, position, low)


def _low(value: Argument) -> float | None:
    """The literal, if it is so low that it may mask."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if isfinite(value) and value <= _LARGEST else None


def _base(node: Node) -> str:
    """``masked_fill`` of ``aten.masked_fill.Scalar``; empty for operators of others."""
    parts = node.target.split(".")
    return parts[1] if len(parts) == 3 and parts[0] == "aten" else ""


def _row_of_maximum(node: Node, name: str) -> int | None:
    """The dimension along which a node takes the greatest elements of a tensor; ``None`` for any other node."""
    dims = node.kwargs.get("dimensions")
    if node.target != "hlo.reduce" or node.kwargs.get("kind") != "maximum" or node.args != (Ref(name),):
        return None
    return dims[0] if isinstance(dims, tuple) and len(dims) == 1 and isinstance(dims[0], int) else None


def _replaced(graph: Graph, sites: Sequence[_Site]) -> Graph:
    """The graph with -inf at some literals."""
    wanted: dict[str, list[_Site]] = {}
    for site in sites:
        wanted.setdefault(site.node, []).append(site)
    constants = dict(graph.constants)
    nodes: list[Node] = []
    for node in graph.nodes:
        for site in wanted.get(node.name, ()):
            if site.position is None:
                old = graph.constants[node.target]
                name = f"{node.target} with -inf"
                low = tuple(x if _low(x) is None else -inf for x in old.data)
                constants[name] = Constant(old.type, low)
                node = replace(node, target=name)
            elif isinstance(site.position, int):
                args = list(node.args)
                args[site.position] = -inf
                node = replace(node, args=tuple(args))
            else:
                node = replace(node, kwargs={**node.kwargs, site.position: -inf})
        nodes.append(node)
    return replace(graph, nodes=tuple(nodes), constants=constants)


@dataclass
class _Check:
    """A graph, and the same with -inf for some literals: where that is not what the literals stand for."""

    graph: Graph
    changed: Graph
    gap: float = inf
    seen: dict[object, bool] = field(default_factory=dict[object, bool])  # softmaxes of one structure are checked once

    @cached_property
    def variable(self) -> frozenset[str]:
        """The nodes whose values depend on inputs."""
        found: set[str] = set()
        for node in self.graph.nodes:
            if node.op == "input" or any(name in found for name in references(node)):
                found.add(node.name)
        return frozenset(found)

    def problems(self, sites: Sequence[_Site]) -> list[str]:
        """The nodes at which -inf is not what some literals stand for; empty if it is everywhere."""
        graph = self.graph
        origins = [site.node for site in sites]
        constant, bad = self._constants(origins)
        carrying = {*constant, *(name for name in origins if name in self.variable)}
        outputs = {output.node for output in graph.outputs}
        pending = [*carrying]
        read: list[tuple[str, str, int]] = []
        bad += [name for name in origins if name in self.variable and not self._passes(graph.by_name[name], "")]
        while pending:
            name = pending.pop()
            if name in outputs:
                bad.append(name)
            for reader in graph.users[name]:
                node = graph.by_name[reader]
                if reader not in self.variable or reader in carrying or self._greatest(node, name) is not None:
                    continue
                if self._passes(node, name):
                    carrying.add(reader)
                    pending.append(reader)
                elif (row := self._softmax(node, name)) is None:
                    bad.append(reader)
                else:
                    read.append((reader, *row))
        # only now is it known all that carries a literal
        bad += [reader for reader, name, dim in read if not self._masks(name, dim, carrying)]
        return bad

    # -- what does not depend on inputs
    def _constants(self, origins: Iterable[str]) -> tuple[set[str], list[str]]:
        """The constant nodes whose values differ with -inf, and those among them where not only masked elements do."""
        below = _descendants(self.graph, [name for name in origins if name not in self.variable])
        wanted = [name for name in below if name not in self.variable]
        if not wanted:
            return set(), []
        before, after = (_executed(graph, wanted, {}) for graph in (self.graph, self.changed))
        carrying: set[str] = set()
        bad: list[str] = []
        for name in wanted:
            x, y = before[name], after[name]
            if not isinstance(x, np.ndarray) or not isinstance(y, np.ndarray):
                bad.append(name)
                continue
            differs = ~((x == y) | (np.isnan(x) & np.isnan(y))) if x.dtype.kind == "f" else x != y
            if differs.any():
                carrying.add(name)
                if x.dtype.kind != "f" or not bool((y[differs] == -inf).all() and (x[differs] <= _LARGEST).all()):
                    bad.append(name)
        return carrying, bad

    # -- the way to a softmax
    def _passes(self, node: Node, name: str) -> bool:
        """True for an operator through which a masked tensor stays one: ``name`` is what it reads (of the operator that
        has the literal itself: nothing)."""
        base = _base(node)
        if base in _LAYOUT or node.target in _LAYOUT_OF_HLO:
            return True
        if node.target == "hlo.select":
            base = "where"
        if node.target in ("hlo.add", "hlo.convert"):
            base = {"hlo.add": "add", "hlo.convert": "_to_copy"}[node.target]
        if base == "_to_copy":
            return node.type is not None and node.type.dtype.is_float
        if base == "add":
            return len(node.args) == 2 and "alpha" not in node.kwargs
        if base == "cat":
            return not node.kwargs
        if base == "sub":
            return any(self._greatest(self.graph.by_name[user], name) == node.name for user in self.graph.users[name])
        if base in ("mul", "div"):
            factor = node.args[1] if len(node.args) == 2 and not node.kwargs else None
            return isinstance(factor, (int, float)) and not isinstance(factor, bool) and 0 < factor < inf
        if base in ("masked_fill", "where"):
            position = 0 if base == "where" else 1
            condition = node.args[position] if len(node.args) == 3 else None
            return isinstance(condition, Ref) and condition.name not in self.variable and condition.name != name
        return False

    def _greatest(self, node: Node, name: str) -> str | None:
        """Of a node that takes the greatest element of each row of a tensor: the difference of the tensor and these, if
        nothing else reads them, and nothing but softmaxes along these rows reads it. A softmax does not depend on what
        is subtracted from a row, and the greatest element is one that is kept, whatever the others are."""
        by_name, users = self.graph.by_name, self.graph.users
        if node.kwargs or node.args[:1] != (Ref(name),) or len(node.args) != 3 or node.args[2] is not True:
            return None
        dim, value = node.args[1], node.name
        if node.target == "aten.max.dim":
            taken = users[node.name]
            if len(taken) != 1 or by_name[taken[0]].args != (Ref(node.name), 0):
                return None
            value = taken[0]
        elif node.target == "aten.amax.default" and isinstance(dim, tuple) and len(dim) == 1:
            (dim,) = dim
        else:
            return None
        shifted = by_name[users[value][0]] if len(users[value]) == 1 else None
        rank = None if (type_ := self._type(name)) is None else len(type_.shape)
        if shifted is None or not rank or not isinstance(dim, int) or _base(shifted) != "sub" or shifted.kwargs:
            return None
        if shifted.args != (Ref(name), Ref(value)) or any(
            o.node in (node.name, value, shifted.name) for o in self.graph.outputs
        ):
            return None
        reads = [self._softmax(by_name[user], shifted.name) for user in users[shifted.name]]
        return shifted.name if reads and all(read and read[1] % rank == dim % rank for read in reads) else None

    def _softmax(self, node: Node, name: str) -> tuple[str, int] | None:
        """The tensor of additive masks or masked scores that a softmax reads, and the dimension of its rows."""
        if node.target in _SOFTMAX:
            dim = node.args[_SOFTMAX[node.target]] if len(node.args) > 1 else node.kwargs.get("dim")
            return (name, dim) if node.args[:1] == (Ref(name),) and isinstance(dim, int) else None
        if node.target in _MASKED_ATTENTION:
            position, keyword = _MASKED_ATTENTION[node.target]
            mask = node.args[position] if len(node.args) > position else node.kwargs.get(keyword)
            causal = [x for x in (*node.args, *node.kwargs.values()) if x is True]
            others = [x for x in references(node) if x == name]
            return (name, -1) if mask == Ref(name) and not causal and len(others) == 1 else None
        if (dim := _row_of_maximum(node, name)) is not None:
            return name, dim
        if node.target == "hlo.subtract" and node.args[0] == Ref(name) and isinstance(node.args[1], Ref):
            return self._less_greatest(node, name, node.args[1].name)
        return None

    def _less_greatest(self, node: Node, name: str, other: str) -> tuple[str, int] | None:
        """The tensor and the dimension of its rows, if a difference takes the greatest element of its row from every
        element, and only exponentials read it."""
        if other == name or any(self.graph.by_name[user].target != "hlo.exponential" for user in self._read_by(node)):
            return None
        for reader in self.graph.users[name]:
            dim, type_ = _row_of_maximum(self.graph.by_name[reader], name), self._type(reader)
            if dim is None or type_ is None or not self._spread(other, reader):
                continue
            if any(type(size) is not int for size in type_.shape) or prod(type_.shape) > _ELEMENTS:
                continue
            rows = -1e300 - np.arange(prod(type_.shape)).reshape(type_.shape) * 1e285  # below any bound but -inf
            found = _executed(self.graph, [other], {reader: rows})[other]
            whole = self._type(name)
            if whole is None or not isinstance(found, np.ndarray):
                continue
            if np.array_equal(found, np.broadcast_to(np.expand_dims(rows, dim), whole.shape)):
                return name, dim
        return None

    def _read_by(self, node: Node) -> tuple[str, ...]:
        """The nodes that read a node, and itself if it is an output."""
        outputs = {output.node for output in self.graph.outputs}
        return (*self.graph.users[node.name], *((node.name,) if node.name in outputs else ()))

    def _spread(self, name: str, source: str) -> bool:
        """True if a tensor has the elements of ``source``, in some order, or the greater ones of them and constants."""
        while name != source:
            node = self.graph.by_name[name]
            read = [x for x in references(node) if x in self.variable]
            if node.target not in (*_LAYOUT_OF_HLO, "hlo.maximum") or len(read) != 1:
                return False
            (name,) = read
        return True

    def _masks(self, name: str, dim: int, carrying: set[str]) -> bool:
        """True if every row along a dimension keeps an element, which is the same with -inf, and all others are masked,
        where the scores are 0."""
        path, leaves = self._path(name, carrying)
        key = (dim, tuple((self.graph.by_name[n].target, self._key(n, path)) for n in path))
        if key not in self.seen:
            self.seen[key] = self._keeps(name, dim, path, leaves)
        return self.seen[key]

    def _key(self, name: str, path: Sequence[str]) -> object:
        """A key of what a node on the path computes, in which names of scores do not count."""
        number = {n: k for k, n in enumerate(path)}

        def of(argument: Argument) -> object:
            if isinstance(argument, Ref):
                if argument.name in number:
                    return ("path", number[argument.name])
                return ("scores", self._type(argument.name)) if argument.name in self.variable else argument
            return tuple(map(of, argument)) if isinstance(argument, tuple) else repr(argument)

        node = self.graph.by_name[name]
        return (tuple(map(of, node.args)), tuple((k, of(v)) for k, v in node.kwargs.items()))

    def _type(self, name: str) -> TensorType | None:
        return self.graph.by_name[name].type

    def _path(self, name: str, carrying: set[str]) -> tuple[list[str], dict[str, TensorType]]:
        """The nodes that depend on inputs and carry the literal, down to a tensor; and the scores that they read."""
        path: set[str] = set()
        leaves: dict[str, TensorType] = {}
        pending = [name]
        while pending:
            current = pending.pop()
            if current in path or current not in self.variable:
                continue
            path.add(current)
            for read in references(self.graph.by_name[current]):
                if read in carrying:
                    pending.append(read)
                elif read in self.variable:
                    found = self._type(read)
                    if found is not None:
                        leaves[read] = found
        return [node.name for node in self.graph.nodes if node.name in path], leaves

    def _keeps(self, name: str, dim: int, path: Sequence[str], leaves: Mapping[str, TensorType]) -> bool:
        shapes = [*leaves.values(), *(t for n in path if (t := self._type(n)) is not None)]
        if any(type(size) is not int for t in shapes for size in t.shape):
            return False
        if max((prod(t.shape) for t in shapes), default=0) > _ELEMENTS or any(
            not t.dtype.is_float for t in leaves.values()
        ):
            return False
        zeros = {leaf: np.zeros(t.shape) for leaf, t in leaves.items()}
        before, after = (_executed(graph, [name], zeros)[name] for graph in (self.graph, self.changed))
        if not isinstance(before, np.ndarray) or not isinstance(after, np.ndarray) or not before.ndim:
            return False
        masked = after == -inf
        kept = ~masked
        same = bool((before[kept] == after[kept]).all()) and bool(np.isfinite(after[kept]).all())
        if not same or not bool(kept.any(axis=dim).all()):
            return False
        highest = np.where(masked & np.isfinite(before), before, -inf).max(axis=dim)
        lowest = np.where(kept, before, inf).min(axis=dim)
        self.gap = min(self.gap, float((lowest - highest).min(initial=inf)))
        return self.gap >= -_LARGEST / 2


def _descendants(graph: Graph, origins: Iterable[str]) -> list[str]:
    """Nodes and all that is computed from them, in the order of the program."""
    found = set(origins)
    for node in graph.nodes:
        if any(name in found for name in references(node)):
            found.add(node.name)
    return [node.name for node in graph.nodes if node.name in found]


def _executed(graph: Graph, wanted: Sequence[str], inputs: Mapping[str, Array]) -> Evaluation:
    """The values of some nodes, of a program in which the given nodes are inputs. Raises :class:`TantamountError`."""
    needed: set[str] = set(wanted)
    for node in reversed(graph.nodes):
        if node.name in needed and node.name not in inputs:
            needed.update(references(node))
    nodes = tuple(
        Node(node.name, "input", node.name, type=node.type) if node.name in inputs else node
        for node in graph.nodes
        if node.name in needed
    )
    part = replace(graph, nodes=nodes, outputs=tuple(Output(name, name) for name in wanted))
    first, second = (interpret(part, inputs, seed=seed) for seed in (0, 1))
    for name in needed:  # what a seed decides is not known
        x, y = first[name], second[name]
        if (
            isinstance(x, np.ndarray)
            and isinstance(y, np.ndarray)
            and not np.array_equal(x, y, equal_nan=x.dtype.kind == "f")
        ):
            raise _NotKnown(name)
    return first


class _NotKnown(TantamountError):
    """A value that depends on chance."""
