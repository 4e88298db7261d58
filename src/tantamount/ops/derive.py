"""The facts of a call of an operator, and of the operator, found by running its definition in ``ops.recording``.

The facts of a call hold for all values of its tensors: its attributes and types are known. Those of an operator are the
facts that all of a few *ordinary* calls have: small floats and whatever else its definition accepts, with attributes
left at their defaults where there are any.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import combinations, islice
from typing import Any, cast

from tantamount.ir.types import DType
from tantamount.ops.algebra import Tensor, TypesOnly
from tantamount.ops.builder import Builder
from tantamount.ops.facts import CHOOSING, NOTHING, Facts
from tantamount.ops.record import HIDDEN, Recorded
from tantamount.ops.recording import Recorder

__all__ = ["Call", "facts_of_call", "ordinary_calls", "shared_facts"]

Call = Mapping[str, Any]  # arguments by parameter; tensors without values
Apply = Callable[[Builder, Call], Any]
_MAX_NAMES = 8  # operands whose sets are tried for linearity
_MEMBERS = 2  # of the process group of a call of a collective


def facts_of_call(apply: Apply, call: Call, collective: str = "", again: bool = True, members: int = _MEMBERS) -> Facts:
    """The facts of one call. A tensor's value may be a name, which its facts get instead of its parameter's, or a
    number that all its elements are known to be; else it is ignored. ``collective``: ``message`` or ``group`` if the
    operator is one; its first tensors are stacked then, one for each of the ``members`` of its group. No facts where
    the definition refuses the call or asks for values."""
    recorder = Recorder()
    arguments = {name: _recorded(recorder, name, value) for name, value in call.items()}
    if collective:
        first = next((name for name, value in arguments.items() if _tensors(value)), None)
        if first is not None:
            arguments[first] = _each(arguments[first], lambda x: _stacked(x, members))
    results = _run(apply, recorder, arguments)
    if not results:
        return NOTHING
    if collective == "message":
        return Facts(collective=collective)
    values = [cast(Recorded, result.value) for result in results]
    shapes = [x.shape for value in arguments.values() for x in _tensors(value)]
    shared = any(len(_tensors(value)) > 1 and not _named(value) for value in call.values())
    found = _static(values, results, shapes, recorder.random, collective, not shared)
    if collective or len(results) > 1 or found.random or not again:
        return found
    names = [name for name, value in call.items() if isinstance(value, Tensor)]
    return replace(
        found,
        idempotent=_again(apply, recorder, arguments, results[0]),
        commutative=_swapped(apply, recorder, arguments, names, results[0]),
    )


def _recorded(recorder: Recorder, name: str, value: Any) -> Any:
    def one(x: Tensor) -> Tensor:
        stored = x.type.stored
        if isinstance(x.value, (int, float, Fraction)):
            number = recorder.constant(x.value, x.dtype.kind)
            full = replace(number, shape=stored.shape, axes=(None,) * len(stored.shape))
            return Tensor(x.shape, x.dtype, full, x.weak)
        leaf = x.value if isinstance(x.value, str) else name
        return Tensor(x.shape, x.dtype, recorder.leaf(leaf, stored.shape, stored.dtype.kind), x.weak)

    if isinstance(value, tuple):  # its tensors differ, though they share a name
        out: list[Any] = []
        for k, item in enumerate(cast(tuple[object, ...], value)):
            made = _recorded(recorder, name, item)
            if isinstance(made, Tensor) and made.value.leaves:
                made = replace(made, value=recorder.item(made.value, k))
            out.append(made)
        return tuple(out)
    return one(value) if isinstance(value, Tensor) else value


def _stacked(x: Tensor, members: int) -> Tensor:
    leaf = cast(Recorded, x.value)
    return replace(
        x, shape=(members, *x.shape), value=replace(leaf, shape=(members, *leaf.shape), axes=None, uniform=False)
    )


def _each(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    if isinstance(value, tuple):
        return tuple(_each(item, change) for item in cast(tuple[object, ...], value))
    return change(value) if isinstance(value, Tensor) else value


def _tensors(value: Any) -> list[Tensor]:
    if isinstance(value, tuple):
        return [x for item in cast(tuple[object, ...], value) for x in _tensors(item)]
    return [value] if isinstance(value, Tensor) else []


def _named(value: Any) -> bool:
    return all(isinstance(x.value, (str, int, float, Fraction)) for x in _tensors(value))


def _run(apply: Apply, recorder: Recorder, arguments: Call) -> list[Tensor]:
    """The results that are tensors; none where the call is refused."""
    try:
        return _tensors(apply(Builder(recorder), arguments))
    except Exception:  # of a definition that somebody wrote, on arguments that are made up here: it refuses them
        return []


# ---------------------------------------------------------------------------------------------- facts of a call
def _static(
    values: Sequence[Recorded],
    results: Sequence[Tensor],
    operands: Sequence[Sequence[int]],
    random: bool,
    kind: str,
    single_names: bool,
) -> Facts:
    """``single_names``: no two tensors share a name; ``kind`` as ``collective`` above."""
    moves = frozenset[str]().union(*(x.moves for x in values))
    leaves = frozenset[str]().union(*(x.leaves for x in values))
    layout = all(_is_layout(x) for x in values)
    moved = frozenset[str]().union(*(x.moved or () for x in values)) if layout else frozenset[str]()
    single = layout and all(x.moved is not None and len(x.moved) == 1 for x in values)
    reductions = {x.reduction for x in values}
    reduction = reductions.pop() if len(reductions) == 1 else ""
    elementwise = not kind and all(
        _is_elementwise(x, result, operands) for x, result in zip(values, results, strict=True)
    )
    combination = _combination(values[0]) if elementwise and single_names and len(values) == 1 else {}
    collective = kind
    if kind:
        collective = reduction or ("exchange" if moved else "computation")
    return Facts(
        linear=_linear(values, leaves),
        combination=combination,
        moved=moved,
        moves=moves,
        piece=single and all(_is_piece(x) for x in values) and not kind,
        view=single and not kind and len(values) == 1 and not moves & CHOOSING,
        elementwise=elementwise,
        factory=not leaves,
        random=random,
        reduction=reduction if reduction != "reciprocal" else "",
        monotone={name: sign for name in leaves if (sign := _sign(name, values))},
        collective=collective,
        comparison=values[0].comparison.removeprefix("-") if len(values) == 1 else "",
        exponent=values[0].exponent if len(values) == 1 else None,
    )


def _is_layout(x: Recorded) -> bool:
    return x.moved is not None and not x.moved & x.deciders


def _is_piece(x: Recorded) -> bool:
    return bool(x.moved) and "slice" in x.moves and x.moves <= {"slice", "squeeze"}


def _is_elementwise(x: Recorded, result: Tensor, operands: Sequence[Sequence[int]]) -> bool:
    if x.axes is None or x.positional or result.dtype.is_complex or not operands:
        return False
    rank = max(map(len, operands))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in operands]
    if len(x.shape) != rank or any(n not in (m, 1) for shape in padded for n, m in zip(shape, x.shape, strict=True)):
        return False
    if any(all(shape[k] == 1 for shape in padded) and n != 1 for k, n in enumerate(x.shape)):
        return False
    return all(axis in (None, rank - 1 - k) for k, axis in enumerate(x.axes))


def _combination(x: Recorded) -> dict[str, Fraction]:
    """The factors by operand, where it is a sum of multiples."""
    out: dict[str, Fraction] = {}
    for term, factor in x.terms.items():
        if factor is None or len(term) > 1 or any(name.startswith(HIDDEN) for name in term):
            return {}
        out[term[0] if term else ""] = factor
    return out if any(out) else {}


def _linear(values: Sequence[Recorded], leaves: frozenset[str]) -> tuple[frozenset[str], ...]:
    plain = {name for x in values for term in x.terms for name in term if not name.startswith(HIDDEN)}
    names = sorted(plain & leaves)
    if len(names) > _MAX_NAMES:
        return ()
    found: list[frozenset[str]] = []
    for size in range(len(names), 0, -1):
        for some in map(frozenset, combinations(names, size)):
            if not any(some <= other for other in found) and all(_is_linear(x, some) for x in values):
                found.append(some)
    return tuple(found)


def _is_linear(x: Recorded, names: frozenset[str]) -> bool:
    if x.deciders & names:
        return False
    return all(
        sum(name in names for name in term) == 1 and not any(HIDDEN + name in term for name in names)
        for term in x.terms
    )


def _sign(name: str, values: Sequence[Recorded]) -> int:
    signs = {x.signs.get(name, 0) for x in values if name in x.leaves}
    return signs.pop() if len(signs) == 1 else 0


# ---------------------------------------------------------------------------------------------- applied again
def _same(x: Tensor, y: Tensor) -> bool:
    return x.type == y.type and x.value.key == y.value.key


def _again(apply: Apply, recorder: Recorder, arguments: Call, result: Tensor) -> bool:
    """True if the definition gives the result again of its own result in the place of its first tensor."""
    first = next((name for name, value in arguments.items() if isinstance(value, Tensor)), None)
    if first is None or result.type != arguments[first].type:
        return False
    if not arguments[first].value.leaves & result.value.leaves:
        return False  # what does not read its operand gives the same again for no reason of its own
    results = _run(apply, recorder, {**arguments, first: result})
    return len(results) == 1 and _same(results[0], result)


def _swapped(apply: Apply, recorder: Recorder, arguments: Call, names: Sequence[str], result: Tensor) -> bool:
    """True if the definition gives the same result of its two tensors in the other order."""
    if len(names) != 2 or arguments[names[0]].type != arguments[names[1]].type:
        return False
    first, second = (arguments[name] for name in names)
    if not first.value.leaves or not second.value.leaves:
        return False
    results = _run(apply, recorder, {**arguments, names[0]: second, names[1]: first})
    return len(results) == 1 and _same(results[0], result)


# ---------------------------------------------------------------------------------------------- ordinary calls
_RANKS = (2, 3, 4, 1, 0)
_SIZE = 4  # of every dimension of an ordinary operand, so that what must fit does
_MAX_TRIES = 200
_MAX_CALLS = 3
_MAX_ACCEPTED = 12  # of one number of dimensions, from which one is taken
_CHOICES: dict[str, tuple[Any, ...]] = {
    "int": (1, 0, 2),
    "Integers": ((1,), (0,), (1, 0), (2, 2), (0, 1), (4, 4), (2, 0, 1), (1, 1, 1), (), (2, 2, 2, 2)),
    "bool": (False, True),
    "Booleans": ((True,), (False,), (True, True, True)),
    "Scalar": (Fraction(2),),
    "float": (0.5,),
    "Scalars": ((Fraction(2), Fraction(2)), (Fraction(2),)),
    "str": ("sum", "max", "LT", "GT", "add", "maximum", "none", "mean", "i"),
    "Strings": (("sum", "sum"), ("add",), ()),
    "DType": (DType.FLOAT32, DType.INT64),
    "Layout": (None,),
    "Group": ("group",),
    "Peer": (1,),
    "Peers": ((1,),),
}


def ordinary_calls(signature: inspect.Signature, kinds: Mapping[str, str], apply: Apply) -> list[tuple[Call, Facts]]:
    """A few calls that a definition accepts, of operands of unlike numbers of dimensions, and their facts. ``kinds``:
    by parameter. Calls that do nothing to their operand are taken where there are no others only."""
    kind = "message" if _has(kinds, "Peer") else "group" if _has(kinds, "Group") else ""
    found: list[tuple[Call, Facts]] = []
    for rank in _RANKS:
        tried = islice(_candidates(signature, kinds, rank), _MAX_TRIES // (1 if not found else 4))
        best: tuple[Call, Facts] | None = None
        for call in islice((one for one in tried if _accepted(apply, one, bool(kind))), _MAX_ACCEPTED):
            facts = facts_of_call(apply, call, kind)
            best = (call, facts) if best is None and facts != NOTHING else best
            if facts != NOTHING and not (facts.view and facts.elementwise):
                best = (call, facts)
                break
        if best is not None:
            found += [best, *_other_strings(apply, kinds, best[0], kind)]
        if len(found) >= _MAX_CALLS:
            break
    return found


def _has(kinds: Mapping[str, str], kind: str) -> bool:
    return any(one.startswith(kind) for one in kinds.values())


def _accepted(apply: Apply, call: Call, collective: bool) -> bool:
    """True if the type rule accepts the call."""
    first = next((name for name, value in call.items() if _tensors(value)), None) if collective else None
    arguments = dict(call)
    if first is not None:
        arguments[first] = _each(call[first], lambda x: replace(x, shape=(_MEMBERS, *x.shape)))
    try:
        apply(Builder(TypesOnly()), arguments)
    except Exception:  # as above
        return False
    return True


def _other_strings(apply: Apply, kinds: Mapping[str, str], call: Call, kind: str) -> Iterator[tuple[Call, Facts]]:
    """The same call with other strings: another reduction, another comparison."""
    for name, value in call.items():
        if kinds[name] == "str":
            for other in _CHOICES["str"]:
                changed = {**call, name: other}
                if other != value and _accepted(apply, changed, bool(kind)):
                    facts = facts_of_call(apply, changed, kind)
                    if facts != NOTHING:
                        yield changed, facts


def _candidates(signature: inspect.Signature, kinds: Mapping[str, str], rank: int) -> Iterator[Call]:
    """Arguments in order of plausibility: operands of ``rank`` dimensions, all floats before some integers or masks;
    some operands of fewer dimensions; optional attributes left out, then some given."""
    options: dict[str, list[Any]] = {}
    for name, parameter in signature.parameters.items():
        kind = kinds[name]
        plain, optional = kind.rstrip("?"), kind.endswith("?")
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            options[name] = [()]
        elif parameter.kind is inspect.Parameter.VAR_KEYWORD:
            options[name] = [{}]
        elif parameter.default is not inspect.Parameter.empty and not (optional and parameter.default is None):
            options[name] = [parameter.default]
        elif plain in ("Tensor", "Operand", "Any"):
            options[name] = [*([None] if parameter.default is None else []), *_operands(rank)]
        elif plain == "Tensors":
            options[name] = [(x,) * count for x in _operands(rank) for count in (2, 1)]
        else:
            given = _CHOICES.get(plain, ())
            options[name] = [None, *given] if parameter.default is None else [*given, *([None] if optional else [])]
    yield from (
        {name: options[name][k] for name, k in zip(options, chosen, strict=True)}
        for chosen in _by_sum([len(found) for found in options.values()])
    )


def _by_sum(limits: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """All tuples of numbers below these limits, those of small sums first."""

    def of(total: int, rest: Sequence[int]) -> Iterator[tuple[int, ...]]:
        if not rest:
            if total == 0:
                yield ()
            return
        for first in range(min(total, rest[0] - 1) + 1):
            if total - first <= sum(rest[1:]) - len(rest) + 1:
                for others in of(total - first, rest[1:]):
                    yield (first, *others)

    if all(limits):
        for total in range(sum(limits) - len(limits) + 1):
            yield from of(total, limits)


def _operands(rank: int) -> Iterator[Tensor]:
    shape = (_SIZE,) * rank
    yield Tensor(shape, DType.FLOAT32, None)
    yield Tensor(shape, DType.INT64, None)
    yield Tensor(shape, DType.BOOL, None)
    if rank:
        yield Tensor(shape[1:], DType.FLOAT32, None)
        yield Tensor(shape[1:], DType.INT64, None)
        yield Tensor((_SIZE,), DType.FLOAT32, None)
        yield Tensor((_SIZE,), DType.INT64, None)
        yield Tensor((), DType.FLOAT32, None)
        yield Tensor((), DType.INT64, None)


def _either(one: str, other: str) -> str:
    """``max or sum``: both; nothing where one of them is nothing."""
    return " or ".join(sorted({*one.split(" or "), *other.split(" or ")})) if one and other else ""


def shared_facts(all_facts: Sequence[Facts]) -> Facts:
    """The facts that all of several calls have."""
    if not all_facts:
        return NOTHING
    found = all_facts[0]
    for other in all_facts[1:]:
        found = Facts(
            linear=tuple(x for x in found.linear if x in other.linear),
            combination=found.combination if found.combination == other.combination else {},
            moved=found.moved | other.moved if found.moved and other.moved else frozenset(),
            moves=found.moves | other.moves,
            piece=found.piece and other.piece,
            view=found.view and other.view,
            elementwise=found.elementwise and other.elementwise,
            factory=found.factory and other.factory,
            random=found.random or other.random,
            reduction=_either(found.reduction, other.reduction),
            monotone={name: sign for name, sign in found.monotone.items() if other.monotone.get(name) == sign},
            idempotent=found.idempotent and other.idempotent,
            commutative=found.commutative and other.commutative,
            collective=_either(found.collective, other.collective),
            comparison=found.comparison if found.comparison == other.comparison else "",
            exponent=found.exponent if found.exponent == other.exponent else None,
        )
    return found
