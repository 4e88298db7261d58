"""The operator table: registration, and binding of a node's arguments to a definition's parameters.

The Python signature of a definition *is* the operator's schema: names, order, defaults, and kinds by annotation.
An argument that the signature does not have, or of another kind than its annotation, is refused; so no attribute
is ever dropped silently.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cache, cached_property, lru_cache
from typing import Any, NewType, Union, cast, get_type_hints

from tantamount.errors import InternalError, UserError
from tantamount.ir.graph import Device, Setting
from tantamount.ir.types import DType
from tantamount.ops.algebra import Number, PerRank, Scalar, ShapeProblem, Tensor
from tantamount.ops.derive import facts_of_call, ordinary_calls, shared_facts
from tantamount.ops.facts import Facts
from tantamount.ops.hidden import refuse_hidden
from tantamount.sizes.symbolic import is_number, is_size

__all__ = [
    "ASSERTIONS",
    "Booleans",
    "Group",
    "Integers",
    "Layout",
    "Operand",
    "Operator",
    "Parameter",
    "Peer",
    "Peers",
    "Scalars",
    "Strings",
    "Tensors",
    "bind",
    "invoke",
    "insert",
    "lookup",
    "operator",
    "table",
]

ASSERTIONS = "assertions"  # the category of operators without a value, at which a program stops or goes on
Group = NewType("Group", str)  # a process-group name: its presence makes the operator a collective
Peer = NewType("Peer", int)  # a position in the process group: the operator sends to it or receives from it
Peers = NewType("Peers", "tuple[int, ...]")
Integers = tuple[int, ...]
Strings = tuple[str, ...]
Booleans = tuple[bool, ...]
Scalars = tuple[Scalar, ...]
Tensors = tuple[Union[Tensor, None], ...]
Operand = Union[Tensor, Scalar]  # a tensor or a number
Layout = Union[Device, Setting, bool, None]  # device, memory format, pin_memory: accepted, never changes a value


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an operator. ``required`` is false when the definition has a default."""

    name: str
    kind: str
    required: bool
    default: Any


@dataclass(frozen=True)
class Operator:
    """A definition under one or more overload names.

    ``mutates``: the parameters that the operator overwrites, in the order of its signature; the definition returns
    their new values after the operator's own results. Such an operator has a meaning inside ``auto_functionalized``
    only. ``requires``: what a call needs of its tensors' values, in words, where it has no defined result otherwise: an
    obligation of an implementation. ``assumes``: what a proof with this operator rests on, one sentence each;
    ``opaque``: what it computes is not known, apart from its labels; ``apart``: of a collective, what members with
    unlike arguments get. ``statistics``: the results that have the accumulation type on one device and the type of the
    first operand on another; which, the graph records. ``other_names``: what other releases call some parameters.
    """

    targets: tuple[str, ...]
    category: str
    define: Callable[..., Any]
    mutates: tuple[str, ...] = ()
    assumes: tuple[str, ...] = ()
    requires: str = ""
    opaque: bool = False
    apart: Callable[..., Any] | None = None
    statistics: tuple[int, ...] = ()
    other_names: tuple[tuple[str, str], ...] = ()

    @property
    def name(self) -> str:
        return self.targets[0]

    @cached_property
    def signature(self) -> inspect.Signature:
        """The schema: the definition's signature without the builder."""
        signature = inspect.signature(self.define)
        return signature.replace(parameters=list(signature.parameters.values())[1:])

    @cached_property
    def positional(self) -> tuple[str, ...]:
        """The parameters that may be given by position."""
        every = self.signature.parameters.values()
        return tuple(one.name for one in every if one.kind is not inspect.Parameter.KEYWORD_ONLY)

    @cached_property
    def keywords(self) -> tuple[str, ...]:
        """The parameters that are given by name only."""
        return tuple(name for name in self.signature.parameters if name not in self.positional)

    @cached_property
    def named(self) -> bool:
        """True if every parameter may be given by name."""
        kinds = {one.kind for one in self.signature.parameters.values()}
        return kinds <= {inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY}

    @cached_property
    def defaults(self) -> Mapping[str, Any]:
        """The default of every parameter, in the order of the schema; ``inspect.Parameter.empty`` where it has none."""
        return {name: one.default for name, one in self.signature.parameters.items()}

    @cached_property
    def parameters(self) -> Mapping[str, Parameter]:
        hints = get_type_hints(self.define)
        found: dict[str, Parameter] = {}
        for name, parameter in self.signature.parameters.items():
            required = parameter.default is inspect.Parameter.empty
            found[name] = Parameter(
                name, _kind(hints[name], self.name), required, None if required else parameter.default
            )
        return found

    @cached_property
    def accepted(self) -> tuple[tuple[str, bool, bool, Callable[[Any], bool], str], ...]:
        """By parameter: its name, whether it may be ``None``, whether it may be a tensor, which values it accepts, and
        these in words."""
        found: list[tuple[str, bool, bool, Callable[[Any], bool], str]] = []
        for name, parameter in self.parameters.items():
            kind = parameter.kind.removesuffix("?")
            found.append((name, kind != parameter.kind, kind in _OF_TENSORS, *_ACCEPTS[kind]))
        return tuple(found)

    @cached_property
    def group_parameter(self) -> str | None:
        """The parameter that names the process group: the operator is a collective if there is one."""
        return next((name for name, parameter in self.parameters.items() if parameter.kind == "Group"), None)

    @cached_property
    def peer_parameter(self) -> str | None:
        """The parameter that names the other end: the operator sends or receives a message if there is one."""
        return next((name for name, parameter in self.parameters.items() if parameter.kind in ("Peer", "Peers")), None)

    @cached_property
    def renamed(self) -> Operator:
        """The operator with the names that other releases give its parameters."""
        new = dict(self.other_names)
        old = {other: name for name, other in self.other_names}
        signature = inspect.signature(self.define)
        hints = inspect.get_annotations(self.define, eval_str=True)

        def define(*args: Any, **kwargs: Any) -> Any:
            return self.define(*args, **{old.get(name, name): value for name, value in kwargs.items()})

        named = [one.replace(name=new.get(one.name, one.name)) for one in signature.parameters.values()]
        define.__signature__ = signature.replace(parameters=named)  # pyright: ignore[reportFunctionMemberAccess]
        define.__annotations__ = {new.get(name, name): hint for name, hint in hints.items()}
        define.__doc__ = self.define.__doc__
        mutates = tuple(new.get(name, name) for name in self.mutates)
        return replace(self, define=define, mutates=mutates, other_names=())

    @cached_property
    def facts(self) -> Facts:
        """The facts of its ordinary calls: attributes left at their defaults, small operands (:mod:`ops.derive`)."""
        kinds = {name: parameter.kind for name, parameter in self.parameters.items()}
        calls = ordinary_calls(self.signature, kinds, lambda b, call: invoke(self, b, call))
        return shared_facts([facts for _, facts in calls])

    def facts_of(self, arguments: Mapping[str, Any], again: bool = True, members: int = 2) -> Facts:
        """The facts of a call with these arguments (bound, by parameter), for all values of its tensors: see
        :func:`tantamount.ops.derive.facts_of_call`."""
        kind = "message" if self.peer_parameter is not None else "group" if self.group_parameter is not None else ""
        return facts_of_call(lambda b, call: invoke(self, b, call), arguments, kind, again, members)

    @property
    def doc(self) -> str:
        return inspect.getdoc(self.define) or ""


_TABLE: dict[str, Operator] = {}


def operator(
    *targets: str,
    category: str,
    mutates: tuple[str, ...] = (),
    assumes: tuple[str, ...] = (),
    requires: str = "",
    apart: Callable[..., Any] | None = None,
    statistics: tuple[int, ...] = (),
    other_names: tuple[tuple[str, str], ...] = (),
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a definition under its overload names (``aten.add.Tensor``). Its first parameter is the builder.
    ``mutates`` names the parameters that the operator overwrites, ``assumes`` what its definition rests on,
    ``requires`` what a call needs, ``other_names`` parameters (name, name elsewhere): see :class:`Operator`.

    The definition of a collective gets, instead of this rank's tensor, those of all members stacked in a new first
    dimension, and returns the members' results stacked the same way. ``apart`` defines one whose members' types or
    attributes may differ: it gets the bound arguments of every member, and returns a result for each.
    """

    def register(define: Callable[..., Any]) -> Callable[..., Any]:
        insert(
            Operator(
                targets, category, define, mutates, assumes, requires, apart=apart, statistics=statistics,
                other_names=other_names,
            )
        )  # fmt: skip
        return define

    return register


def insert(row: Operator) -> None:
    """Put a row into the table under all its names. Raises :class:`InternalError` if it has one of them."""
    for target in row.targets:
        if target in _TABLE:
            raise InternalError(f"operator {target} is defined twice")
        _TABLE[target] = row


def table() -> Mapping[str, Operator]:
    """Every operator by overload name; loads the definitions on first use. Ours are sorted by name, whichever module
    was imported first; those that users declare follow."""
    _load()
    return _TABLE


@cache
def _load() -> None:
    from tantamount.ops import definitions

    definitions.load()
    ordered = sorted(_TABLE.items())
    _TABLE.clear()
    _TABLE.update(ordered)


@lru_cache(maxsize=256)
def _nearest(target: str, count: int) -> tuple[str, ...]:
    """The names most like one that the table, of so many rows, does not have: who tries operators asks again."""
    from difflib import get_close_matches

    return tuple(get_close_matches(target, _TABLE, n=3))


_NAMESPACES = ("aten.", "prims.", "hlo.", "_c10d_functional.", "c10d.", "builtins.", "math.", "operator.")


def lookup(target: str, place: str) -> Operator:
    """The operator of that name. Raises :class:`UserError` with the nearest known names."""
    rows = table()
    row = rows.get(target)
    if row is None:
        refuse_hidden(target, place)
        near = _nearest(target, len(rows))
        hint = f"nearest known: {', '.join(near)}" if near else "`tantamount ops` lists the known operators"
        if not target.startswith(_NAMESPACES):  # of the user, or of a library of kernels
            hint = (
                f'in Python: tt.definition("{target}", "x, w", "silu(x) * w"), an expression in known operators, or '
                f'tt.opaque("{target}", "t [d], [d] -> t [d]"), the dimensions that it works along; in a job: '
                f'[ops."{target}"]; see docs/adding-an-operator.md'
            )
        raise UserError(
            "operator-unknown",
            place=place,
            found=f"operator {target!r}",
            needed="an operator of the table, or a definition in the job's [ops]",
            hint=hint,
        )
    return row


_KINDS: dict[Any, str] = {}


def _kind(annotation: Any, owner: str) -> str:
    if not _KINDS:
        _KINDS.update({
            Tensor: "Tensor", Tensor | None: "Tensor?", Tensors: "Tensors", Operand: "Operand",
            Operand | None: "Operand?", Scalar: "Scalar", Scalar | None: "Scalar?", int: "int", int | None: "int?",
            Integers: "Integers", Integers | None: "Integers?", bool: "bool", bool | None: "bool?",
            Booleans: "Booleans", Scalars: "Scalars", Scalars | None: "Scalars?",
            str: "str", str | None: "str?", DType: "DType", DType | None: "DType?",
            Layout: "Layout", Group: "Group", Peer: "Peer", Peers: "Peers", Strings: "Strings",
            float: "float", float | None: "float?", Any: "Any",
        })  # fmt: skip
    kind = _KINDS.get(annotation)
    if kind is None:
        raise InternalError(f"operator {owner}: parameter annotation {annotation!r} has no kind")
    return kind


def _is_int(value: Any) -> bool:
    return is_number(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, Fraction, PerRank)) or is_size(value)


def _is_integers(value: Any) -> bool:
    return isinstance(value, tuple) and all(_is_int(item) for item in value)  # pyright: ignore[reportUnknownVariableType]


def _is_strings(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, str) for item in value)  # pyright: ignore[reportUnknownVariableType]


def _is_booleans(value: Any) -> bool:
    return isinstance(value, tuple) and all(isinstance(item, bool) for item in value)  # pyright: ignore[reportUnknownVariableType]


def _is_numbers(value: Any) -> bool:
    return isinstance(value, tuple) and all(_is_number(item) for item in value)  # pyright: ignore[reportUnknownVariableType]


def _is_tensors(value: Any) -> bool:
    return isinstance(value, tuple) and all(item is None or isinstance(item, Tensor) for item in value)  # pyright: ignore[reportUnknownVariableType]


_ACCEPTS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "Tensor": (lambda value: isinstance(value, Tensor), "a tensor"),
    "Tensors": (_is_tensors, "a list of tensors"),
    "Operand": (lambda value: isinstance(value, Tensor) or _is_number(value), "a tensor or a number"),
    "Scalar": (_is_number, "a number"),
    "float": (lambda value: isinstance(value, float) or is_number(value), "a number"),
    "int": (_is_int, "an integer"),
    "Integers": (_is_integers, "a list of integers"),
    "bool": (lambda value: isinstance(value, bool), "a boolean"),
    "Booleans": (_is_booleans, "a list of booleans"),
    "Scalars": (_is_numbers, "a list of numbers"),
    "str": (lambda value: isinstance(value, str), "a string"),
    "Strings": (_is_strings, "a list of strings"),
    "Peer": (_is_int, "a position in the process group"),
    "Peers": (_is_integers, "positions in the process group"),
    "Group": (lambda value: isinstance(value, str), "a process-group name"),
    "Any": (lambda value: True, "anything"),
    "DType": (lambda value: isinstance(value, DType), "an element type"),
    "Layout": (lambda value: value is None or isinstance(value, (Device, Setting, bool)), "a device or memory layout"),
}


_OF_TENSORS = ("Tensor", "Tensors", "Operand", "Any")


def _numbers_of(value: Any, concrete: Callable[[Tensor], Number]) -> Any:
    """An attribute with the numbers in the places of numbers that were taken out of tensors."""
    if isinstance(value, Tensor) and value.weak:
        return concrete(value)
    if isinstance(value, tuple):
        return tuple(_numbers_of(item, concrete) for item in cast(tuple[object, ...], value))
    return value


def bind(
    row: Operator,
    target: str,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    place: str,
    concrete: Callable[[Tensor], Number] | None = None,
) -> dict[str, Any]:
    """A node's arguments (references already replaced by tensors) as the definition's parameters. ``concrete`` gives
    the number in a 0-d tensor where an attribute is meant (a size that was computed).

    Raises :class:`UserError` for an unknown, missing or doubled attribute and for one of the wrong kind.
    """
    where = f"{place}: {target}"
    bound = _given(row, args, kwargs)
    if bound is None:
        try:
            found = row.signature.bind(*args, **kwargs)
            found.apply_defaults()
            bound = found.arguments
        except TypeError as problem:
            raise UserError(
                "operator-attribute",
                place=where,
                found=str(problem),
                needed=f"the schema {target}{row.signature}",
                hint=f"`tantamount ops {target}` shows the operator",
            ) from None
    for name, optional, of_tensors, accepts, needed in row.accepted:
        value = bound[name]
        if optional and value is None:
            continue
        if concrete is not None and not of_tensors:
            value = bound[name] = _numbers_of(value, concrete)
        if not accepts(value):
            raise UserError("operator-attribute", place=f"{where}: {name}", found=_show(value), needed=needed)
    return bound


def _given(row: Operator, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any] | None:
    """Arguments by parameter, in the order of the schema, with its defaults: what ``signature.bind`` gives, in a tenth
    of the time; ``None`` if they do not fit."""
    positional = row.positional
    if not row.named or len(args) > len(positional):
        return None
    bound = dict(row.defaults)
    bound.update(zip(positional, args, strict=False))
    if kwargs:
        if not kwargs.keys() <= bound.keys() or not kwargs.keys().isdisjoint(positional[: len(args)]):
            return None
        bound.update(kwargs)
    for value in bound.values():
        if value is inspect.Parameter.empty:
            return None
    return bound


def invoke(row: Operator, builder: Any, arguments: Mapping[str, Any]) -> Any:
    """The definition applied to arguments that :func:`bind` has bound. Raises :class:`ShapeProblem` for what the
    definition refuses, and for numbers that it cannot compute with (a quotient by 0, infinity as a size)."""
    positional = [arguments[name] for name in row.positional]
    named = {name: arguments[name] for name in row.keywords}
    try:
        return row.define(builder, *positional, **named)
    except ArithmeticError as problem:
        raise ShapeProblem(f"numbers that {row.name} cannot compute with ({problem})") from None


def _show(value: object) -> str:
    if isinstance(value, Tensor):
        return f"a tensor {value.type}"
    if isinstance(value, tuple) and any(isinstance(item, Tensor) for item in cast(tuple[object, ...], value)):
        return "a list with tensors"
    return repr(cast(object, value))
