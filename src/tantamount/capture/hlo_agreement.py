"""HLO text says types in more than one place: those of parameters, results and operands must agree.

A type is printed with the instruction that has it, and again in the signature of its computation, in the module's
``entry_computation_layout``, and (in some dialects) with every use as an operand. A text in which two of them differ
was changed by hand, or cut together from two: what it means is anybody's guess, so it is refused. The layouts of
``entry_computation_layout`` are those of the program's interface: instructions have them only once layouts were
assigned, which is certain of modules that are scheduled.
"""

from __future__ import annotations

from tantamount.capture.fields import Place, shown
from tantamount.capture.hlo_text import Array, Computation, HloType, Instruction, Module, Tuple, parse_signature
from tantamount.errors import UserError

__all__ = ["check_agreement"]


def check_agreement(module: Module, place: Place) -> None:
    """Raise :class:`UserError` where the text of a module contradicts itself."""
    for computation in module.computations.values():
        if computation.signature is not None:
            where = place.at(f"line {computation.line}: the signature of {computation.name}")
            _check_signature(*computation.signature, computation, where)
        types = {instruction.name: instruction.type for instruction in computation.instructions}
        for instruction in computation.instructions:
            _check_operands(instruction, types, place)
    text = module.attributes.get("entry_computation_layout")
    if text is not None:
        where = place.at("line 1: entry_computation_layout")
        if not (text.startswith("{") and text.endswith("}")):
            raise where.wrong(shown(text), "{(types of parameters)->type of the result}", code="hlo-syntax")
        scheduled = module.attributes.get("is_scheduled") == "true"
        _check_signature(*parse_signature(text[1:-1], where), module.entry, where, layouts=scheduled)


def _check_signature(
    parameters: tuple[HloType, ...], result: HloType, computation: Computation, place: Place, *, layouts: bool = True
) -> None:
    found = [one for one in computation.instructions if one.opcode == "parameter"]
    if len(parameters) != len(found):
        raise place.wrong(
            f"{len(parameters)} parameters", f"{len(found)}, as many as the computation has", code="hlo-contradiction"
        )
    for instruction in found:
        number = int(instruction.inside) if instruction.inside.isascii() and instruction.inside.isdigit() else -1
        if 0 <= number < len(parameters) and not _agree(parameters[number], instruction.type, layouts):
            raise _contradiction(place.at(f"parameter {number}"), parameters[number], instruction)
    if not _agree(result, computation.root.type, layouts):
        raise _contradiction(place.at("the result"), result, computation.root)


def _check_operands(instruction: Instruction, types: dict[str, HloType], place: Place) -> None:
    for name, stated in instruction.printed.items():
        if name in types and not _agree(stated, types[name]):
            where = place.at(f"line {instruction.line}: %{instruction.name}: operand {name}")
            raise where.wrong(
                f"the type {_text(stated)}", f"{_text(types[name])}, with which it is defined", code="hlo-contradiction"
            )


def _contradiction(place: Place, stated: HloType, instruction: Instruction) -> UserError:
    return place.wrong(
        f"the type {_text(stated)}",
        f"{_text(instruction.type)}, that of %{instruction.name} in line {instruction.line}",
        code="hlo-contradiction", hint="the text was changed after it was printed, or put together from two",
    )  # fmt: skip


def _agree(a: HloType, b: HloType, layouts: bool = True) -> bool:
    """The same type; ``layouts`` are compared where both are printed, without tiles and memory spaces."""
    if isinstance(a, Array) and isinstance(b, Array):
        return a.type == b.type and (not layouts or a.order is None or b.order is None or a.order == b.order)
    if isinstance(a, Tuple) and isinstance(b, Tuple):
        return len(a.parts) == len(b.parts) and all(
            _agree(x, y, layouts) for x, y in zip(a.parts, b.parts, strict=True)
        )
    return type(a) is type(b) and _text(a).partition("{")[0] == _text(b).partition("{")[0]


def _text(type_: HloType) -> str:
    if isinstance(type_, Array):
        return f"{type_.type}" + (f" with layout {{{type_.layout}}}" if type_.layout is not None else "")
    if isinstance(type_, Tuple):
        return f"({', '.join(map(_text, type_.parts[:8]))}{', ...' if len(type_.parts) > 8 else ''})"
    return type_.text
