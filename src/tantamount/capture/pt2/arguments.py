"""Arguments of nodes in exported programs: a union of some thirty kinds, as what ``fx-nodes/1`` has for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tantamount.capture.fields import Fields, Place, is_integer, shown
from tantamount.capture.pt2.types import LAYOUTS, MEMORY_FORMATS, dtype_of, union

__all__ = ["Named", "argument_of", "constant_of", "tensor_name"]

Named = Callable[[str, Place], str]  # from a name in the archive to that of the node that has the value

_SPECIAL = {"Infinity": "inf", "-Infinity": "-inf", "NaN": "nan"}
_SYMBOLIC = ("as_sym_int", "as_sym_float", "as_sym_bool")
_REFUSED: Mapping[str, str] = {
    "as_graph": "a program inside the program",
    "as_custom_obj": "an object of a class of its own",
    "as_operator": "an operator",
    "as_string_to_argument": "a table",
}


def argument_of(value: object, place: Place, named: Named) -> Any:
    """An argument, as the document of a graph has it. Raises :class:`UserError` for kinds that graphs do not have, by
    their names."""
    kind, given = union(value, place)
    here = place.at(kind)
    if kind in _PLAIN:
        return _PLAIN[kind](given, here)
    if kind == "as_tensor":
        return {"node": named(tensor_name(given, here), here)}
    if kind in ("as_optional_tensor", "as_sym_int", "as_sym_float", "as_sym_bool"):
        return _inner(given, here, named)
    if kind in ("as_tensors", "as_optional_tensors", "as_sym_ints", "as_sym_floats", "as_sym_bools"):
        inner = _tensor if kind == "as_tensors" else _inner
        return [inner(item, here, named) for item in here.list(given)]
    if kind == "as_nested_tensors":
        return [[_tensor(item, here, named) for item in here.list(row)] for row in here.list(given)]
    found = _REFUSED.get(kind, shown(kind))
    raise here.wrong(found, "tensors, numbers, texts, types and devices", code="pt2-unsupported")


def constant_of(value: object, place: Place) -> Any:
    """A value that is no tensor and names nothing: what a program was specialised to."""
    kind, given = union(value, place)
    if kind not in _PLAIN:
        raise place.wrong(shown(kind), f"one of {', '.join(_PLAIN)}", code="pt2-data")
    return _PLAIN[kind](given, place.at(kind))


def tensor_name(value: object, place: Place) -> str:
    """The name in a tensor argument."""
    return Fields.of(value, place, ("name",), ("name",)).name("name", "the name of a tensor")


def _tensor(value: object, place: Place, named: Named) -> Any:
    return {"node": named(tensor_name(value, place), place)}


def _inner(value: object, place: Place, named: Named) -> Any:
    """A union in a list: a tensor or none, a number or the name of one that is computed from sizes."""
    kind, given = union(value, place)
    here = place.at(kind)
    if kind == "as_name":
        raise here.wrong(
            f"the number {shown(given)}, which the program computes", "numbers that are known", code="pt2-symbolic",
            hint="export without `dynamic_shapes` and without `.item()`",
        )  # fmt: skip
    if kind == "as_tensor":
        return _tensor(given, here, named)
    if kind not in ("as_none", "as_int", "as_float", "as_bool"):
        raise here.wrong(shown(kind), "a tensor, a number or nothing", code="pt2-data")
    return _PLAIN[kind](given, here)


# ---------------------------------------------------------------------------------------------- what names nothing
def _none(value: object, place: Place) -> None:
    if value is not True:
        raise place.wrong(shown(value), "true", code="pt2-data")


def _whole(value: object, place: Place) -> int:
    if not is_integer(value):
        raise place.wrong(shown(value), "a whole number", code="pt2-data")
    return value


def _real(value: object, place: Place) -> Any:
    if isinstance(value, str) and value in _SPECIAL:
        return {"float": _SPECIAL[value]}
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise place.wrong(shown(value), "a real number", code="pt2-data")
    try:
        return float(value)
    except OverflowError:
        raise place.wrong(shown(value), "a number that a float can be", code="pt2-data") from None


def _boolean(value: object, place: Place) -> bool:
    if not isinstance(value, bool):
        raise place.wrong(shown(value), "true or false", code="pt2-data")
    return value


def _complex(value: object, place: Place) -> Any:
    parts = Fields.of(value, place, ("real", "imag"), ("real", "imag"))
    return {"complex": [_real(parts.get(key), place.at(key)) for key in ("real", "imag")]}


def _device(value: object, place: Place) -> Any:
    device = Fields.of(value, place, ("type", "index"), ("type",))
    index = device.get("index")
    name = device.name("type", "a kind of device")
    return {"device": name if index is None else f"{name}:{_whole(index, place)}"}


def _setting(names: Mapping[int, str]) -> Callable[[object, Place], Any]:
    def read(value: object, place: Place) -> Any:
        name = names.get(value) if is_integer(value) else None
        if name is None:
            raise place.wrong(shown(value), f"one of {', '.join(map(str, names))}", code="pt2-data")
        return {"torch": name}

    return read


def _text(value: object, place: Place) -> str:
    return place.string(value)


def _dtype(value: object, place: Place) -> Any:
    return {"dtype": dtype_of(value, place).label}


def _list(read: Callable[[object, Place], Any]) -> Callable[[object, Place], Any]:
    return lambda value, place: [read(item, place) for item in place.list(value)]


_PLAIN: Mapping[str, Callable[[object, Place], Any]] = {
    "as_none": _none,
    "as_int": _whole,
    "as_ints": _list(_whole),
    "as_int_lists": _list(_list(_whole)),
    "as_float": _real,
    "as_floats": _list(_real),
    "as_float_lists": _list(_list(_real)),
    "as_bool": _boolean,
    "as_bools": _list(_boolean),
    "as_complex": _complex,
    "as_string": _text,
    "as_strings": _list(_text),
    "as_scalar_type": _dtype,
    "as_memory_format": _setting(MEMORY_FORMATS),
    "as_layout": _setting(LAYOUTS),
    "as_device": _device,
}
