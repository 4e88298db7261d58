"""The constructors of generated modules: process groups, parts of parameters and buffers, and reducers of gradients."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import EllipsisType
from typing import cast

from tantamount.capture.nnscaler.outline import SETTINGS
from tantamount.capture.nnscaler.statements import Call, Dotted, Name, Range, Statement, Value, refused

__all__ = ["Built", "Held", "Reducer"]

_MEANS = ("avg", "mean")


@dataclass(frozen=True, slots=True)
class Held:
    """The part of a parameter (or buffer) that a rank has under the name ``attribute``: ``name`` in the model, the
    ``shape`` of the whole, and ``box``, start and stop along every dimension. ``dtype`` as it is written."""

    attribute: str
    name: str
    shape: tuple[int, ...]
    box: tuple[tuple[int, int], ...]
    dtype: str
    trained: bool
    line: int = field(default=0, compare=False)


@dataclass(frozen=True, slots=True)
class Reducer:
    """Gradients of ``attributes`` are summed over ``ranks``; ``zero``: a rank has a part of the optimizer's state,
    which is cut over each of so many ``parts`` of the ranks. ``scattered``: a rank has the sums of its part only.
    ``asynchronous``: the sum is made as soon as all gradients are there, not when the step asks for it. ``mean``: it is
    divided by the number of ranks."""

    name: str
    ranks: tuple[int, ...]
    attributes: tuple[str, ...]
    line: int
    zero: bool = False
    parts: int = 1
    scattered: bool = False
    asynchronous: bool = False
    mean: bool = False

    def sharers(self, rank: int) -> tuple[int, ...]:
        """The ranks that have a part each of the state, this one among them, if it is cut at all."""
        size = len(self.ranks) // self.parts
        first = self.ranks.index(rank) // size * size
        return self.ranks[first : first + size]


@dataclass(frozen=True, slots=True)
class _Registered:
    """A parameter or buffer as it is registered, with its shape on the rank."""

    shape: tuple[int, ...]
    dtype: str
    trained: bool
    parameter: bool


class Built:
    """The content of a generated constructor, read statement by statement. ``settings`` are the defaults of its own
    arguments, with which it is called."""

    def __init__(self, path: str, settings: Mapping[str, object]) -> None:
        self.path, self.settings = path, settings
        self.groups: list[tuple[int, ...]] = []
        self._types: dict[str, _Registered] = {}
        self._maps: dict[str, Held] = {}
        self._reducers: dict[str, Reducer] = {}
        self._reduced: dict[str, list[str]] = {}
        self._added: set[str] = set()

    def take(self, statement: Statement) -> None:
        """Raises :class:`UserError` for a statement that is not known, or that does a second time what is done once."""
        call = statement.value
        if isinstance(call, Call) and not statement.within:
            target = statement.targets[0] if statement.targets else ""
            name = call.function
            if name in ("super().__init__", "self._post_init") and not target:
                return
            if name == "self.init_group":
                self.groups.append(self._ranks(call, statement))
                return
            if name in ("self.register_parameter", "self.register_buffer"):
                self._register(call, statement, parameter=name.endswith("parameter"))
                return
            if name == "self.add_full_map":
                self._map(call, statement)
                return
            if name == "nnscaler.runtime.adapter.Reducer" and target.startswith("self."):
                self._reducer(target, call, statement)
                return
            if name.endswith(".add_param") and name.removesuffix(".add_param") in self._reducers:
                parameter = call.args[0] if len(call.args) == 1 else None
                if isinstance(parameter, Dotted) and not call.kwargs:
                    self._reduced[name.removesuffix(".add_param")].append(parameter.path.removeprefix("self."))
                    return
            added = call.args[0] if len(call.args) == 1 else None
            if name == "self.add_reducer" and isinstance(added, Dotted) and added.path not in self._added:
                self._added.add(added.path)
                return
        raise refused(
            self.path, statement.line, statement.text, "groups, parameters, their full maps, and reducers",
            "this is not known of the modules that nnScaler generates",
        )  # fmt: skip

    def _ranks(self, call: Call, statement: Statement) -> tuple[int, ...]:
        ranks = call.kwargs.get("ranks")
        if not isinstance(ranks, tuple) or not all(type(r) is int and r >= 0 for r in ranks):
            raise refused(self.path, statement.line, statement.text, "ranks=[numbers of ranks]")
        found = cast("tuple[int, ...]", ranks)
        if list(found) != sorted(set(found)):
            raise refused(self.path, statement.line, statement.text, "ranks in ascending order")
        return found

    def _register(self, call: Call, statement: Statement, *, parameter: bool) -> None:
        name, made = (*call.args, None, None)[:2]
        trained = parameter
        if isinstance(made, Call) and made.function == "torch.nn.Parameter" and set(made.kwargs) <= {"requires_grad"}:
            trained = trained and made.kwargs.get("requires_grad", True) is True
            made = made.args[0] if made.args else None
        if isinstance(name, str) and isinstance(made, Call) and made.function == "torch.empty" and len(made.args) == 1:
            shape, dtype = made.args[0], made.kwargs.get("dtype")
            plain = set(call.kwargs) <= {"persistent"} and len(call.args) == 2 and name not in self._types
            if plain and _sizes(shape) and isinstance(dtype, Dotted) and set(made.kwargs) == {"dtype"}:
                self._types[name] = _Registered(cast("tuple[int, ...]", shape), dtype.path, trained, parameter)
                return
        raise refused(
            self.path, statement.line, statement.text, "a parameter or buffer of torch.empty(shape, dtype=...)"
        )

    def _map(self, call: Call, statement: Statement) -> None:
        attribute, _, is_parameter, name, shape, cut, chunks = (*call.args, *(None,) * 7)[:7]
        wrong = refused(
            self.path, statement.line, statement.text,
            "add_full_map(attribute, id, is_param, name, shape, slices, value chunks)",
        )  # fmt: skip
        if len(call.args) != 7 or call.kwargs or attribute in self._maps:
            raise wrong
        if not (isinstance(attribute, str) and isinstance(name, str) and _sizes(shape)):
            raise wrong
        sizes = cast("tuple[int, ...]", shape)
        if isinstance(cut, EllipsisType) and not sizes:  # of a single number
            cut = ()
        if not isinstance(cut, tuple):
            raise wrong
        if chunks != 1:
            raise refused(self.path, statement.line, f"{chunks} value chunks", "1: parameters are cut, not summed")
        box: list[tuple[int, int]] = []
        for part in cut:
            if not (isinstance(part, Range) and type(part.start) is int and type(part.stop) is int):
                raise wrong
            if part.step not in (None, 1):
                raise wrong
            box.append((part.start, part.stop))
        if len(box) != len(sizes) or not all(0 <= a < b <= n for (a, b), n in zip(box, sizes, strict=True)):
            raise wrong
        registered = self._types.get(attribute)
        if registered is None or registered.shape != tuple(b - a for a, b in box):
            raise refused(
                self.path, statement.line, statement.text, "the map of something that was registered in this shape"
            )
        if is_parameter is not registered.parameter:
            raise refused(self.path, statement.line, statement.text, "is_param as it was registered")
        self._maps[attribute] = Held(
            attribute, name, sizes, tuple(box), registered.dtype, registered.trained, statement.line
        )

    def _reducer(self, target: str, call: Call, statement: Statement) -> None:
        options = {key: self._setting(value) for key, value in call.kwargs.items()}
        ranks = self._ranks(call, statement)
        zero, parts = options.get("zero", False), options.get("zero_ngroups", 1)
        scattered, now = options.get("zero_use_reduce_scatter", False), options.get("async_op", False)
        size = options.get("max_bucket_size_bytes")
        right = options.get("reduce_op", "sum") in ("sum", *_MEANS) and not call.args and target not in self._reducers
        right = right and set(options) <= {"ranks", "reduce_op", "zero", "zero_ngroups", *SETTINGS}
        right = right and all(isinstance(x, bool) for x in (zero, scattered, now))
        right = right and (size is None or (type(size) is int and size >= 0))
        if not right or type(parts) is not int or parts < 1 or len(ranks) % parts or (parts > 1 and not zero):
            raise refused(self.path, statement.line, statement.text, "a reducer that sums over one group of ranks")
        self._reducers[target] = Reducer(
            target.removeprefix("self."), ranks, (), statement.line, zero is True, parts,
            zero is True and scattered is True, now is True, options.get("reduce_op") in _MEANS,
        )  # fmt: skip
        self._reduced[target] = []

    def _setting(self, value: Value) -> Value:
        """The value of an option, the constructor's default if it is one of its settings."""
        if isinstance(value, Name) and value.name in self.settings:
            return cast("Value", self.settings[value.name])
        return value

    def held(self) -> dict[str, Held]:
        for attribute in self._types:
            if attribute not in self._maps:
                raise refused(self.path, 1, f"no full map of {attribute}", "where in the model it lies")
        return dict(self._maps)

    def reducers(self) -> dict[str, Reducer]:
        found: dict[str, Reducer] = {}
        for name, reducer in self._reducers.items():
            attributes = self._reduced[name]
            if name not in self._added:
                raise refused(self.path, reducer.line, f"{name}, which is not added", "self.add_reducer")
            unknown = [x for x in attributes if x not in self._maps]
            if unknown or not attributes or len(set(attributes)) < len(attributes):
                listed = ", ".join(unknown or attributes) or "no parameters"
                raise refused(self.path, reducer.line, f"a reducer of {listed}", "parameters, each once")
            found[reducer.name] = replace(reducer, attributes=tuple(attributes))
        return found


def _sizes(value: Value) -> bool:
    return isinstance(value, tuple) and all(type(size) is int and size > 0 for size in value)
