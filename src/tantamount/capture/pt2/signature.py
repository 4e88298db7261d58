"""The signature of an exported program: its inputs and outputs, and what each stands for."""

from __future__ import annotations

from dataclasses import dataclass

from tantamount.capture.fields import Fields, Place, shown
from tantamount.capture.pt2.arguments import constant_of, tensor_name
from tantamount.capture.pt2.types import union

__all__ = ["Given", "Left", "Signature", "signature_of"]

_NAME_OF = {"parameter": "parameter_name", "buffer": "buffer_name", "tensor_constant": "tensor_constant_name"}
# Kind of an output -> how it is called, and the field with the name of what it is a new value or a gradient of.
_OUTPUTS = {
    "buffer_mutation": ("new", "buffer_name"),
    "parameter_mutation": ("new", "parameter_name"),
    "user_input_mutation": ("new", "user_input_name"),
    "gradient_to_parameter": ("grad", "parameter_name"),
    "gradient_to_user_input": ("grad", "user_input_name"),
}


@dataclass(frozen=True)
class Given:
    """An input, by its ``name`` in the program. ``kind``: ``state`` (a parameter or buffer), ``recorded`` (a constant),
    ``tensor`` (an argument), ``constant`` (an argument that is no tensor), or what else it is, in words. ``target`` is
    the name that the state or the constant has in the module."""

    kind: str
    name: str
    target: str
    place: Place


@dataclass(frozen=True)
class Left:
    """An output: ``returned``, or the ``new`` value of, or ``grad``, of ``target``, which is an argument's name in the
    program if ``of_argument``; or the ``loss``."""

    kind: str
    target: str
    of_argument: bool


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs in the order of the program's."""

    inputs: tuple[Given, ...]
    outputs: tuple[Left, ...]


def signature_of(module: Fields) -> Signature:
    """Raises :class:`UserError` for what is no signature."""
    place = module.at("signature")
    fields = Fields.of(module.get("signature"), place, ("input_specs", "output_specs"), ("input_specs", "output_specs"))
    inputs, outputs = (fields.at(key).list(fields.get(key)) for key in ("input_specs", "output_specs"))
    return Signature(
        tuple(_given(spec, fields.at(f"input_specs[{k}]")) for k, spec in enumerate(inputs)),
        tuple(_left(spec, fields.at(f"output_specs[{k}]")) for k, spec in enumerate(outputs)),
    )


def _given(spec: object, place: Place) -> Given:
    kind, value = union(spec, place)
    here = place.at(shown(kind))
    if kind in _NAME_OF:
        field = _NAME_OF[kind]
        known = ("arg", field, "persistent") if kind == "buffer" else ("arg", field)
        fields = Fields.of(value, here, known, ("arg", field))
        name = tensor_name(fields.get("arg"), here)
        role = "recorded" if kind == "tensor_constant" else "state"
        return Given(role, name, fields.name(field, "a name"), here)
    if kind == "user_input":
        inner, own = union(Fields.of(value, here, ("arg",), ("arg",)).get("arg"), here)
        if inner == "as_tensor":
            return Given("tensor", tensor_name(own, here), "", here)
        return Given(f"an argument of kind {shown(inner)}", _name_in(own), "", here)
    if kind == "constant_input":
        fields = Fields.of(value, here, ("name", "value"), ("name", "value"))
        constant_of(fields.get("value"), here)
        return Given("constant", here.string(fields.get("name")), "", here)
    if kind not in ("custom_obj", "token"):
        raise place.wrong(shown(kind), "a kind of input that PyTorch 2.13 writes", code="pt2-data")
    words = "an object of a class of its own" if kind == "custom_obj" else "a token of effects"
    fields = Fields.of(value, here, ("arg", "custom_obj_name"), ("arg",))
    return Given(words, _name_in(fields.get("arg")), "", here)


def _name_in(value: object) -> str:
    """The name of an argument that is no tensor, wherever it is."""
    found: object = value
    while isinstance(found, dict) and found:
        found = found["name"] if "name" in found else next(iter(found.values()))  # type: ignore[reportUnknownVariableType]
    return found if isinstance(found, str) else ""


def _left(spec: object, place: Place) -> Left:
    kind, value = union(spec, place)
    here = place.at(shown(kind))
    if kind == "user_output":
        Fields.of(value, here, ("arg",), ("arg",))
        return Left("returned", "", False)
    if kind == "loss_output":
        Fields.of(value, here, ("arg",), ("arg",))
        return Left("loss", "", False)
    if kind in _OUTPUTS:
        word, field = _OUTPUTS[kind]
        fields = Fields.of(value, here, ("arg", field), ("arg", field))
        return Left(word, fields.name(field, "a name"), field == "user_input_name")
    raise place.wrong(
        f"an output of kind {shown(kind)}", "tensors that are returned, left in state, or gradients",
        code="pt2-unsupported",
    )  # fmt: skip
