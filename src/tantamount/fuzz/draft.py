"""A graph while it is drawn: typed nodes with their exact values, and the choice of operands among them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from math import isfinite, prod
from random import Random

import numpy as np

from tantamount.errors import TantamountError
from tantamount.fuzz.goals import place_of
from tantamount.ir.graph import Argument, Constant, Graph, Node, Ref
from tantamount.ir.types import DType, Kind, Shape, TensorType
from tantamount.ops.algebra import Tensor
from tantamount.ops.execute import Environment
from tantamount.semantics.exact import Exact, Held, held_input
from tantamount.semantics.reference import Array
from tantamount.semantics.rounding import FORMATS, array_type

__all__ = ["ALL_DTYPES", "CAST", "NARROW", "Draft", "Policy", "counted", "usable"]

ALL_DTYPES = (
    DType.FLOAT32, DType.INT32, DType.INT64, DType.BOOL, DType.FLOAT16, DType.INT8, DType.UINT8, DType.FLOAT64,
    DType.INT16, DType.BFLOAT16,
)  # fmt: skip
_SIZES = (1, 2, 3, 4, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65)
_SIZE_WEIGHTS = (3, 5, 5, 5, 3, 2, 4, 3, 6, 4, 2, 4, 3, 2, 2, 2)
_RANK_WEIGHTS = (1, 8, 12, 8, 4)
CAST = "aten._to_copy.default"
NARROW = (DType.INT8, DType.UINT8, DType.INT16)
_LOOSEST = 1e-2  # an error bound beyond this part of the largest value shows nothing


@dataclass(frozen=True)
class Policy:
    """The programs that may be drawn.

    ``dtypes``: element types; ``targets``: operators (``None``: all that there are samplers for); ``wrap``: integers
    may leave their type and wrap around; ``limits``: integer inputs may be at the ends of their type; ``empty``:
    dimensions may be 0; ``integer_limit``: no partial result of integers beyond it; ``inexact``: transcendental
    operators; ``largest``: elements of a tensor; ``constants``: the share of leaves that are constants; ``nodes``:
    fewest and most calls; ``kernels``: by operator the element types of operands that it takes (``None``: all);
    ``never_wrap``: operators whose results do not wrap around."""

    dtypes: tuple[DType, ...] = ALL_DTYPES
    targets: frozenset[str] | None = None
    wrap: bool = True
    limits: bool = True
    empty: bool = True
    integer_limit: int | None = None
    inexact: bool = True
    largest: int = 4096
    constants: float = 0.25
    nodes: tuple[int, int] = (3, 16)
    kernels: Mapping[str, frozenset[str]] | None = None
    never_wrap: frozenset[str] = frozenset()

    def allows(self, interpretation: Exact) -> bool:
        """True if what wrapped around in an interpretation may do so."""
        return not interpretation.wraps or (self.wrap and not interpretation.wrapped_by & self.never_wrap)

    def has(self, target: str, dtypes: Sequence[DType]) -> bool:
        """True if operands of some element types are what an operator is there for; of a cast also its result's."""
        if self.kernels is None or target not in self.kernels:
            return True
        return all(dtype.label in self.kernels[target] for dtype in counted(target, dtypes))


def counted(target: str, dtypes: Sequence[DType]) -> Sequence[DType]:
    """Of the element types of a call's operands those that a kernel is chosen by: not those of conditions and
    indices."""
    if target == "aten.where.self":
        return dtypes[1:]
    return dtypes[:1] if target in ("aten.index_select.default", "aten.gather.default") else dtypes


def usable(x: Tensor) -> bool:
    """True for a value that results may be compared by: finite, and with an error bound that is not too loose."""
    held: Held = x.value
    if not isfinite(held.error):
        return False
    if held.array.dtype.kind == "f" and held.array.size and not np.isfinite(held.array).all():
        return False
    return held.error == 0.0 or held.error <= _LOOSEST * float(np.max(np.abs(held.array), initial=0.0))


@dataclass
class Draft:
    """The graph so far. ``values``: what every node computes; ``leaves`` of it become inputs or constants. ``wish``:
    the node that the next choice of an operand takes, if it fits; ``aim``: the element type that a cast goes to;
    ``place``: which dimensions a reduction goes over; ``ends``: integer leaves have elements at the ends of their
    type; ``share`` of leaves that are constants; ``along``: the dimension that calls go along, and the size that their
    operand has there."""

    random: Random
    policy: Policy
    nodes: list[Node] = field(default_factory=list[Node])
    values: dict[str, Tensor] = field(default_factory=dict[str, Tensor])
    tuples: dict[str, tuple[Tensor, ...]] = field(default_factory=dict[str, "tuple[Tensor, ...]"])
    constants: dict[str, Constant] = field(default_factory=dict[str, Constant])
    inputs: dict[str, Array] = field(default_factory=dict[str, Array])
    used: set[str] = field(default_factory=set[str])
    sizes: tuple[int, ...] = ()
    dtypes: tuple[DType, ...] = ()
    wish: str | None = None
    aim: DType | None = None
    place: str | None = None
    ends: bool = False
    share: float = 0.0
    along: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    _axis: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        r = self.random
        self.interpretation = Exact()
        self.numpy = np.random.default_rng(r.getrandbits(63))
        self.stub = Graph((), (), self.constants)
        self.sizes = tuple(r.choices(_SIZES, _SIZE_WEIGHTS, k=r.choice((1, 2, 3, 3, 3, 3))))  # 1: all tensors are cubes
        if self.policy.empty and r.random() < 0.03:
            self.sizes = (*self.sizes, 0)
        # In one graph of five nearly all leaves are constants: what compilers compute beforehand goes its own ways.
        self.share = min(0.9, self.policy.constants * r.choice((0.4, 0.4, 1.0, 1.0, 3.6)))
        weights = [2.0 / (1 + k) for k in range(len(self.policy.dtypes))]
        self.dtypes = tuple(dict.fromkeys(r.choices(self.policy.dtypes, weights, k=2)))

    # ------------------------------------------------------------------ choices
    def shape(self, rank: int | None = None) -> Shape:
        """A random shape of the draft's sizes, small enough."""
        r = self.random
        for _ in range(8):
            chosen = tuple(
                r.choice(self.sizes) for _ in range(r.choices(range(5), _RANK_WEIGHTS)[0] if rank is None else rank)
            )
            if prod(chosen) <= self.policy.largest:
                return chosen
        count = 1 if rank is None else rank
        return (r.choice(self.sizes), *(1,) * count)[:count]

    def pick(self, kinds: Sequence[Kind] = (), fits: Callable[[Tensor], bool] | None = None) -> str | None:
        """A node of one of some kinds that fits: the one wished for, or any, preferring late and unused ones; ``None``
        if there is none."""
        wish, self.wish = self.wish, None
        if wish is not None:
            x = self.values[wish]
            if (not kinds or x.dtype.kind in kinds) and (fits is None or fits(x)):
                return wish
        names = [
            name for name, x in self.values.items()
            if (not kinds or x.dtype.kind in kinds) and (fits is None or fits(x))
        ]  # fmt: skip
        if not names:
            return None
        weights = [(4.0 if name not in self.used else 1.0) * (1 + 2 * k / len(names)) for k, name in enumerate(names)]
        return self.random.choices(names, weights)[0]

    def like(self, x: Tensor) -> str:
        """A node of the type of ``x`` whose shape broadcasts with its shape: one that there is, or a new leaf."""
        r = self.random
        if r.random() < 0.6:
            found = self.pick((), lambda y: y.dtype is x.dtype and _broadcasts(x.shape, y.shape, self.policy.largest))
            if found is not None:
                return found
        shape = [1 if r.random() < 0.15 else size for size in x.shape]
        if r.random() < 0.15:
            shape = shape[r.randrange(len(shape) + 1) :]
        return self.leaf(tuple(shape), x.dtype)

    def axis(self, name: str, allowed: Sequence[int] | None = None) -> int:
        """A dimension for the call to be made on a node: often the one that the node itself went along, which is where
        two calls on end are taken for one, or the last, which vectors lie along."""
        r = self.random
        rank = self.values[name].rank
        among = range(rank) if allowed is None else allowed
        placed = [k for k in among if place_of((k,), rank) == self.place]
        known, _ = self.along.get(name, (-1, 0))
        if placed:
            chosen = r.choice(placed)
        elif known in among and r.random() < 0.4:
            chosen = known
        else:
            chosen = rank - 1 if rank - 1 in among and r.random() < 0.25 else r.choice(among)
        self._axis = (chosen, self.values[name].shape[chosen])
        return chosen

    def axes(self, rank: int) -> tuple[int, ...]:
        """One, two or all dimensions for a reduction to go over: those of the place asked for, if there are any."""
        r = self.random
        if self.place is not None:
            several = [dims for count in range(1, rank + 1) for dims in combinations(range(rank), count)]
            fitting = [dims for dims in several if place_of(dims, rank) == self.place]
            if fitting:
                return r.choice(fitting)
        if r.random() < 0.35:
            return (rank - 1,)
        return tuple(sorted(r.sample(range(rank), r.choice([1, 1, min(2, rank), rank]))))

    def length(self, name: str, axis: int) -> int:
        """The length of a part of a node along a dimension: often the size that was there before the node was made, or
        one that other tensors have: where shapes are equal, tensors are taken for equal."""
        most, r = self.values[name].shape[axis], self.random
        known, before = self.along.get(name, (-1, 0))
        if known == axis and 0 < before < most and r.random() < 0.4:
            return before
        sizes = [size for size in self.sizes if 0 < size <= most]
        return r.choice(sizes) if sizes and r.random() < 0.5 else r.randint(1, most)

    # ------------------------------------------------------------------ leaves
    def array(self, shape: Shape, dtype: DType) -> Array:
        """Random elements: small integers, sometimes at the ends of an integer type, or near where floats round."""
        g, r = self.numpy, self.random
        if dtype is DType.BOOL:
            return g.integers(0, 2, shape).astype(np.bool_)
        if dtype.is_float:
            reach = 1 if r.random() < 0.3 else 3 if dtype in (DType.FLOAT32, DType.FLOAT64) else 2
            return np.asarray(g.integers(*self._range(-reach, reach), shape), dtype=np.float64)
        low, high = dtype.bounds
        limit = self.policy.integer_limit
        if self.policy.limits and dtype in NARROW and not self.ends and r.random() < 0.15:  # all that the type holds
            return np.asarray(g.integers(*self._range(low, high), shape), dtype=np.int64)
        if self.policy.limits and (self.ends or r.random() < 0.3):
            ends = [low, low + 1, high, high - 1, 0, 1, 16, -1 if low else 3]
            if dtype in (DType.INT32, DType.INT64) and r.random() < 0.5:
                ends = [2**24 - 1, 2**24, 2**24 + 1, -(2**24) - 1, 7, 0]
                if dtype is DType.INT64:
                    ends += [2**31, -(2**31) - 1, 2**53 + 1]
            ends = [end for end in ends if limit is None or abs(end) <= limit]
            return np.asarray(g.choice(np.array(ends, dtype=np.int64), shape), dtype=np.int64)
        reach = 3 if r.random() < 0.7 else 9
        return np.asarray(g.integers(*self._range(max(low, -reach), reach), shape), dtype=np.int64)

    def _range(self, low: int, high: int) -> tuple[int, int]:
        """The least number and one more than the greatest: often of one sign alone, where a wrong first element of
        a reduction shows."""
        side = self.random.random()
        if side < 0.25 and low < 0:
            return low, 0
        return (1 if side > (0.75 if low < 0 else 0.5) else low), high + 1

    def leaf(self, shape: Shape, dtype: DType, array: Array | None = None, constant: bool | None = None) -> str:
        """A new input, or a constant, of that type, with random elements unless they are given."""
        value = self.array(shape, dtype) if array is None else array
        if constant is None:
            constant = self.random.random() < self.share
        type_ = TensorType(shape, dtype)
        if constant:
            name = f"c{len(self.constants)}"
            data = np.asarray(value, dtype=np.float64 if dtype.is_float else array_type(dtype))
            self.constants[name] = Constant(type_, tuple(data.ravel().tolist()))
            self.nodes.append(Node(name, "constant", name, type=type_))
        else:
            name = f"x{len(self.inputs)}"
            self.inputs[name] = np.asarray(value, dtype=array_type(dtype))
            self.nodes.append(Node(name, "input", name, type=type_))
        self.values[name] = Tensor(shape, dtype, held_input(value, dtype))
        return name

    # ------------------------------------------------------------------ calls
    def call(self, target: str, *args: Argument, **kwargs: Argument) -> str | None:
        """A new node with its value, if it has one that can be compared; else ``None``, and nothing has changed. Of an
        operator with several results, its name; its results come by :meth:`item`."""
        axis, self._axis = self._axis, None
        node = Node(f"n{len(self.nodes)}", "call", target, args, kwargs)
        interpretation, policy = self.interpretation, self.policy
        flags, wraps = len(interpretation.flags), interpretation.wraps
        names = _names((*args, *kwargs.values()))
        operands = [self.values[name].dtype for name in names if name in self.values]
        operands += [item for item in kwargs.values() if isinstance(item, DType)]
        if not policy.has(target, operands):
            return None
        try:
            given: Environment = {
                name: self.values[name] if name in self.values else self.tuples[name] for name in names
            }
            result = interpretation.step(self.stub, node, given)
        except TantamountError:
            return None
        tensors = result if isinstance(result, tuple) else (result,)
        if len(interpretation.flags) > flags or (
            interpretation.wraps > wraps and (not policy.wrap or target in policy.never_wrap)
        ):
            return None
        for x in tensors:
            if (
                not isinstance(x, Tensor)
                or x.dtype not in policy.dtypes
                or not usable(x)
                or prod(x.shape) > policy.largest
            ):
                return None
            if x.rank > 5 or (0 in x.shape and not policy.empty):
                return None
            if policy.integer_limit is not None and x.dtype.kind is Kind.INT and x.value.total > policy.integer_limit:
                return None
            if x.dtype.is_float and (
                x.value.total > FORMATS[x.dtype].largest or (x.value.error and not policy.inexact)
            ):
                return None
        if isinstance(result, tuple):
            self.tuples[node.name] = tuple(x for x in result if isinstance(x, Tensor))
            self.nodes.append(node)
        elif isinstance(result, Tensor):
            self.values[node.name] = result
            self.nodes.append(Node(node.name, "call", target, args, kwargs, result.type))
        if axis is not None:
            self.along[node.name] = axis
        self.used.update(names)
        return node.name

    def item(self, name: str, k: int) -> str:
        """The k-th result of a node with several."""
        x = self.tuples[name][k]
        node = Node(f"n{len(self.nodes)}", "call", "getitem", (Ref(name), k), {}, x.type)
        self.nodes.append(node)
        self.values[node.name] = x
        if name in self.along:
            self.along[node.name] = self.along[name]
        return node.name


def _names(arguments: Sequence[Argument]) -> list[str]:
    found: list[str] = []
    for argument in arguments:
        if isinstance(argument, Ref):
            found.append(argument.name)
        elif isinstance(argument, tuple):
            found += _names(argument)
    return found


def _broadcasts(a: Shape, b: Shape, largest: int) -> bool:
    rank = max(len(a), len(b))
    pairs = list(zip((1,) * (rank - len(a)) + a, (1,) * (rank - len(b)) + b, strict=True))
    return (
        all(x == y or 1 in (x, y) for x, y in pairs)
        and prod(max(x, y) if 0 not in (x, y) else 0 for x, y in pairs) <= largest
    )
