"""The contents of a generated module: its rank, its parts of parameters, reducers, segments, adapters, and its step."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from tantamount.capture.files import read_text
from tantamount.capture.nnscaler.statements import (
    Call,
    Dotted,
    Function,
    Name,
    Range,
    Statement,
    Value,
    constructor,
    functions_in,
    names_in,
    refused,
)
from tantamount.errors import UserError
from tantamount.limits import Limits

__all__ = ["GeneratedModule", "Held", "Reducer", "is_generated", "read_folder"]

_FILE = re.compile(r"gencode(\d{1,6})\.py")
_STEP = "_train_step"


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


@dataclass(frozen=True, slots=True)
class Reducer:
    """Gradients of ``attributes`` are summed over ``ranks``; ``zero``: a rank has a part of the optimizer's state."""

    name: str
    ranks: tuple[int, ...]
    attributes: tuple[str, ...]
    line: int
    zero: bool = False


@dataclass(frozen=True)
class GeneratedModule:
    """The module of one rank. ``functions`` are the segments, adapters and reducers that its step calls; ``groups``
    the ranks of process groups that it makes."""

    path: str
    rank: int
    microbatches: int
    scheduled: bool
    version: str
    groups: tuple[tuple[int, ...], ...]
    held: Mapping[str, Held]
    reducers: Mapping[str, Reducer]
    functions: Mapping[str, Function]
    step: Function


def is_generated(path: Path) -> bool:
    """True for a folder with modules that nnScaler generated, or one of them."""
    if path.is_dir():
        return (path / "gencode0.py").is_file()
    return _FILE.fullmatch(path.name) is not None


def read_folder(folder: Path, limits: Limits) -> tuple[GeneratedModule, ...]:
    """The modules of all ranks, ``gencode0.py`` and so on. Raises :class:`UserError` for ranks that are missing, and
    for anything in a module that is not known to mean what is made of it."""
    folder = folder if folder.is_dir() else folder.parent
    found = {int(match[1]): path for path in folder.iterdir() if (match := _FILE.fullmatch(path.name))}
    missing = next(rank for rank in range(len(found) + 1) if rank not in found)
    limits.check("ranks", len(found), str(folder), "ranks")
    if missing < len(found) or not found:
        raise UserError(
            "plan-nnscaler", place=str(folder), found=f"no gencode{missing}.py", needed="one module for every rank"
        )
    modules = tuple(_module(found[rank], limits) for rank in range(len(found)))
    for rank, module in enumerate(modules):
        if module.rank != rank:
            raise refused(module.path, 1, f"rank = {module.rank}", f"{rank}, which the file is named for")
        if module.microbatches != modules[0].microbatches:
            found_ = f"{module.microbatches} microbatches, {modules[0].microbatches} on rank 0"
            raise refused(module.path, 1, found_, "one number of microbatches for all ranks")
    return modules


def _module(path: Path, limits: Limits) -> GeneratedModule:
    text = read_text(path, limits)
    shown = str(path)
    try:
        with warnings.catch_warnings():  # of Python's compiler, about a text that is not ours
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as problem:
        line = getattr(problem, "lineno", None) or 1
        raise refused(shown, line, f"{type(problem).__name__}: {problem}", "Python") from None
    limits.check("nodes", sum(1 for _ in ast.walk(tree)) // 10, shown, "nodes")
    lines = text.splitlines() or [""]
    cls = next((x for x in tree.body if isinstance(x, ast.ClassDef) and x.name == "GenModel"), None)
    if cls is None:
        raise refused(shown, 1, "no class GenModel", "a module that nnScaler generated")
    begins = next((x for x in cls.body if isinstance(x, ast.FunctionDef) and x.name == "__init__"), None)
    step = functions_in(tree.body, shown, lines, {_STEP}, method=False).get(_STEP)
    if begins is None or step is None:
        raise refused(shown, cls.lineno, f"no {'__init__' if begins is None else _STEP}", "both of them")
    fields = {**_constants(tree.body), **_constants(cls.body)}
    model = f"{step.parameters[0]}." if step.parameters else "model."
    wanted = {
        name.removeprefix(model) for statement in step.body for name in names_in(statement.value)
        if name.startswith(model)
    }  # fmt: skip
    built = _Built(shown)
    for statement in constructor(begins, shown, lines):
        built.take(statement)
    microbatches = fields.get("nmicros_per_scheduler_step", 1)
    if not isinstance(microbatches, int) or not 1 <= microbatches <= 1 << 20:
        raise refused(shown, cls.lineno, f"nmicros_per_scheduler_step = {microbatches!r}", "a number from 1 on")
    rank = fields.get("rank")
    return GeneratedModule(
        shown, rank if isinstance(rank, int) else -1, microbatches, bool(fields.get("use_scheduler")),
        str(fields.get("runtime_version", "unknown")), tuple(built.groups), built.held(), built.reducers(),
        functions_in(cls.body, shown, lines, wanted, method=True), step,
    )  # fmt: skip


def _constants(nodes: Sequence[ast.stmt]) -> dict[str, object]:
    return {
        target.id: node.value.value
        for node in nodes
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


class _Built:
    """The content of a generated constructor, read statement by statement."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.groups: list[tuple[int, ...]] = []
        self._types: dict[str, tuple[tuple[int, ...], str, bool]] = {}
        self._maps: dict[str, tuple[Held, int]] = {}
        self._reducers: dict[str, tuple[tuple[int, ...], list[str], int, bool]] = {}
        self._added: set[str] = set()

    def take(self, statement: Statement) -> None:
        call = statement.value
        if isinstance(call, Call):
            target = statement.targets[0] if statement.targets else ""
            name = call.function
            if name in ("super().__init__", "self._post_init"):
                return
            if name == "self.init_group":
                self.groups.append(self._ranks(call, statement))
                return
            if name in ("self.register_parameter", "self.register_buffer"):
                self._register(call, statement, trained=name.endswith("parameter"))
                return
            if name == "self.add_full_map":
                self._map(call, statement)
                return
            if name == "nnscaler.runtime.adapter.Reducer" and target.startswith("self."):
                self._reducer(target, call, statement)
                return
            if name.endswith(".add_param") and name.removesuffix(".add_param") in self._reducers:
                parameter = call.args[0] if len(call.args) == 1 else None
                if isinstance(parameter, Dotted):
                    self._reducers[name.removesuffix(".add_param")][1].append(parameter.path.removeprefix("self."))
                    return
            if name == "self.add_reducer" and len(call.args) == 1 and isinstance(call.args[0], Dotted):
                self._added.add(call.args[0].path)
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

    def _register(self, call: Call, statement: Statement, *, trained: bool) -> None:
        name, made = (*call.args, None, None)[:2]
        if isinstance(made, Call) and made.function == "torch.nn.Parameter" and set(made.kwargs) <= {"requires_grad"}:
            trained = trained and made.kwargs.get("requires_grad", True) is True
            made = made.args[0] if made.args else None
        if isinstance(name, str) and isinstance(made, Call) and made.function == "torch.empty" and len(made.args) == 1:
            shape, dtype = made.args[0], made.kwargs.get("dtype")
            if _sizes(shape) and isinstance(dtype, Dotted) and set(made.kwargs) == {"dtype"}:
                self._types[name] = (cast("tuple[int, ...]", shape), dtype.path, trained)
                return
        raise refused(
            self.path, statement.line, statement.text, "a parameter or buffer of torch.empty(shape, dtype=...)"
        )

    def _map(self, call: Call, statement: Statement) -> None:
        attribute, _, _, name, shape, cut, chunks = (*call.args, *(None,) * 7)[:7]
        wrong = refused(
            self.path, statement.line, statement.text,
            "add_full_map(attribute, id, is_param, name, shape, slices, value chunks)",
        )  # fmt: skip
        if not (isinstance(attribute, str) and isinstance(name, str) and _sizes(shape) and isinstance(cut, tuple)):
            raise wrong
        if chunks != 1:
            raise refused(self.path, statement.line, f"{chunks} value chunks", "1: parameters are cut, not summed")
        sizes = cast("tuple[int, ...]", shape)
        box: list[tuple[int, int]] = []
        for part in cut:
            if not (isinstance(part, Range) and type(part.start) is int and type(part.stop) is int):
                raise wrong
            if part.step not in (None, 1):
                raise wrong
            box.append((part.start, part.stop))
        fits = len(box) == len(sizes) and all(0 <= a < b <= n for (a, b), n in zip(box, sizes, strict=True))
        if not fits and sizes:
            raise wrong
        registered = self._types.get(attribute)
        if registered is None or registered[0] != tuple(b - a for a, b in box[: len(sizes)]):
            raise refused(
                self.path, statement.line, statement.text, "the map of something that was registered in this shape"
            )
        held = Held(attribute, name, sizes, tuple(box[: len(sizes)]), registered[1], registered[2])
        self._maps[attribute] = (held, statement.line)

    def _reducer(self, target: str, call: Call, statement: Statement) -> None:
        options = dict(call.kwargs)
        ranks = self._ranks(call, statement)
        settings = {"async_op", "max_bucket_size_bytes", "zero_use_reduce_scatter"}  # the constructor's own arguments
        known = {"ranks", "reduce_op", "zero", "zero_ngroups", *settings}
        plain = all(options.get(key) in (Name(key), False, None) for key in settings)
        right = options.get("reduce_op", "sum") == "sum" and options.get("zero_ngroups", 1) == 1
        right = right and options.get("zero", False) in (False, True)
        if call.args or not set(options) <= known or not plain or not right:
            raise refused(self.path, statement.line, statement.text, "a reducer that sums over one group of ranks")
        self._reducers[target] = (ranks, [], statement.line, bool(options.get("zero")))

    def held(self) -> dict[str, Held]:
        for attribute in self._types:
            if attribute not in self._maps:
                raise refused(self.path, 1, f"no full map of {attribute}", "where in the model it lies")
        return {attribute: held for attribute, (held, _) in self._maps.items()}

    def reducers(self) -> dict[str, Reducer]:
        found: dict[str, Reducer] = {}
        for name, (ranks, attributes, line, zero) in self._reducers.items():
            if name not in self._added:
                raise refused(self.path, line, f"{name}, which is not added", "self.add_reducer")
            unknown = [x for x in attributes if x not in self._maps]
            if unknown or len(set(attributes)) < len(attributes):
                raise refused(
                    self.path, line, f"a reducer of {', '.join(unknown or attributes)}", "parameters, each once"
                )
            found[name.removeprefix("self.")] = Reducer(
                name.removeprefix("self."), ranks, tuple(attributes), line, zero
            )
        return found


def _sizes(value: Value) -> bool:
    return isinstance(value, tuple) and all(type(size) is int and size > 0 for size in value)
