"""HLO text as XLA and Neuron print it, taken apart: computations, instructions, shapes, attributes as text.

Nothing here knows what an instruction means; :mod:`tantamount.capture.hlo` does. Names may have a ``%`` or not, shapes
a layout or not, operands their shape or not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Union

from tantamount.capture.fields import Place, shown
from tantamount.errors import UserError
from tantamount.ir.types import DType, Shape, TensorType

__all__ = [
    "Array",
    "Computation",
    "HloType",
    "Instruction",
    "Module",
    "Opaque",
    "Tuple",
    "parse_module",
    "parse_signature",
]

_DTYPES = {
    "pred": DType.BOOL, "s8": DType.INT8, "s16": DType.INT16, "s32": DType.INT32, "s64": DType.INT64,
    "u8": DType.UINT8, "u16": DType.UINT16, "u32": DType.UINT32, "u64": DType.UINT64, "f16": DType.FLOAT16,
    "bf16": DType.BFLOAT16, "f32": DType.FLOAT32, "f64": DType.FLOAT64, "f8e4m3fn": DType.FLOAT8_E4M3FN,
    "f8e5m2": DType.FLOAT8_E5M2,
}  # fmt: skip
# A string without its end is read to the end of the text, so that no part of it is read twice.
_COMMENT = re.compile(r'"(?:\\.|[^"\\])*+"?|/\*')
_SPACE = re.compile(r"[ \t]*")
_BLANK = re.compile(r"\s*")
_NAME = re.compile(r"%?([A-Za-z_][\w.\-]*)")
_PARAMETER = re.compile(r"%?[A-Za-z_][\w.\-]*[ \t]*:")
_KEY = re.compile(r"([a-z_][\w\-]*)=")
_ARRAY = re.compile(r"([a-z][a-z0-9]*)\[([^\]\n]*)\](?:\{([^{}\n]*)\})?")
_NESTING = re.compile(r'"(?:\\.|[^"\\])*+"?|[(){}\[\]]')
_VALUE = re.compile(r'"(?:\\.|[^"\\\n])*+"?|[(){}\[\],\n]')
_TABLES = re.compile(r"(?:FileNames|FunctionNames|FileLocations|StackFrames)$")
_ROW = re.compile(r"(\d{1,9}) (\{[^{}\n]*\}|\"(?:\\.|[^\"\\\n])*\")[ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"(\w+)=(\d{1,9})(?!\d)")
_CLOSING = {"(": ")", "{": "}", "[": "]"}
# Brackets without others inside, as most are.
_FLAT = {
    a: re.compile(rf'{re.escape(a)}((?:[^(){{}}\[\]"]++|"(?:\\.|[^"\\])*+")*+){re.escape(b)}')
    for a, b in _CLOSING.items()
}
# An instruction up to its operands, and an attribute, as most are: by themselves on a line, brackets not nested.
_HEAD = re.compile(
    r"(ROOT[ \t]+)?(%?[A-Za-z_][\w.\-]*)[ \t]*=[ \t]*([a-z][a-z0-9]*\[[^\]\n]*\](?:\{[^{}\n]*\})?)"
    r"[ \t]*%?([A-Za-z_][\w.\-]*)[ \t]*(?=\()"
)
_STRING = r'"(?:\\.|[^"\\\n])*+"'
_PLAIN = re.compile(
    rf"[ \t]*,[ \t]*([a-z_][\w\-]*)="
    rf'((?:[^,(){{}}\[\]"\n]++|{_STRING}|\{{(?:[^(){{}}\[\]"\n]++|{_STRING})*+\}})*+)(?=[,\n])'
)
_ONE_NAME = re.compile(r"%?([A-Za-z_][A-Za-z0-9_.\-]*)\Z")


@dataclass(frozen=True, slots=True)
class Array:
    """A tensor; ``layout`` is the text inside its braces (``1,0``), ``None`` where none is printed."""

    type: TensorType
    layout: str | None

    @property
    def order(self) -> str | None:
        """The dimensions from minor to major as text without spaces (``1,0``), if a layout is printed that has them."""
        found = None if self.layout is None else "".join(self.layout.partition(":")[0].split())
        return found or None


@dataclass(frozen=True, slots=True)
class Tuple:
    """Several values."""

    parts: tuple[HloType, ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """A token, or an element type that is not known: nothing can be computed with it. ``text`` as it is printed."""

    text: str


HloType = Union[Array, Tuple, Opaque]


@dataclass(frozen=True, slots=True)
class Instruction:
    """One line. ``operands`` are names (a ``%`` and a printed type are dropped); for ``parameter``, ``constant`` and
    other instructions whose parentheses hold no names, ``inside`` is the text there. ``attributes`` keep their text.
    ``printed`` has the types that are printed with operands, by the operand's name."""

    name: str
    type: HloType
    opcode: str
    operands: tuple[str, ...]
    inside: str
    attributes: Mapping[str, str]
    line: int
    root: bool
    printed: Mapping[str, HloType] = field(default_factory=dict[str, "HloType"])


@dataclass(frozen=True, slots=True)
class Computation:
    """Instructions in order; exactly one is the root. ``signature``: the types of parameters and result that are
    printed with its name, if they are."""

    name: str
    instructions: tuple[Instruction, ...]
    line: int
    signature: tuple[tuple[HloType, ...], HloType] | None = None

    @property
    def root(self) -> Instruction:
        return next(instruction for instruction in self.instructions if instruction.root)


@dataclass(frozen=True, slots=True)
class Module:
    """A program. ``computations`` are in the order of the file; ``frames`` maps the number of a stack frame to its
    file, line and function."""

    name: str
    attributes: Mapping[str, str]
    computations: Mapping[str, Computation]
    entry: Computation
    frames: Mapping[int, tuple[str, int, str]]


def parse_module(text: str, place: Place) -> Module:
    """The module in ``text``; ``place`` names the file. Raises :class:`UserError` with the line of what is wrong."""
    return _Parser(text, place).module()


def parse_signature(text: str, place: Place) -> tuple[tuple[HloType, ...], HloType]:
    """The types of parameters and result in ``(f32[2], s32[])->f32[2]``. Raises :class:`UserError`."""
    parser = _Parser(text, place)
    found = parser.signature()
    parser.skip(_BLANK)
    if parser.at < len(parser.text):
        raise parser.wrong("the end of the signature")
    return found


class _Parser:
    """A position in the text."""

    def __init__(self, text: str, place: Place) -> None:
        self.text = _without_comments(text)
        self.place = place
        self.types = dict[str, HloType]()  # that were read, by their text
        self.at: int = 0
        self._counted, self._line = 0, 1

    # -- places
    def line(self) -> int:
        """The line of the current position; positions only grow between calls."""
        if self.at < self._counted:
            self._counted, self._line = 0, 1
        self._line += self.text.count("\n", self._counted, self.at)
        self._counted = self.at
        return self._line

    def wrong(self, needed: str, found: str | None = None, code: str = "hlo-syntax", hint: str = "") -> UserError:
        if found is None:
            rest = self.text[self.at : self.at + 40].split("\n")[0]
            found = shown(rest) if rest.strip() else "the end of the line" if self.at < len(self.text) else "the end"
        return self.place.at(f"line {self.line()}").wrong(found, needed, code=code, hint=hint)

    # -- tokens
    def skip(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        found = pattern.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
        return found

    def take(self, token: str) -> bool:
        if not self.text.startswith(token, self.at):
            self.skip(_SPACE)
        if self.text.startswith(token, self.at):
            self.at += len(token)
            return True
        return False

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise self.wrong(f"{token!r}")

    def name(self, what: str) -> str:
        self.skip(_SPACE)
        found = self.skip(_NAME)
        if found is None:
            raise self.wrong(what)
        return found[1]

    def balanced(self) -> str:
        """The text between the bracket at the current position and its partner; the position moves past it."""
        start = self.at
        flat = _FLAT[self.text[start]].match(self.text, start)
        if flat is not None:
            self.at = flat.end()
            return flat[1]
        open_: list[str] = []
        for found in _NESTING.finditer(self.text, start):
            token = found[0]
            if token in _CLOSING:
                open_.append(_CLOSING[token])
            elif token in ")}]":
                if open_.pop() != token:
                    raise self.wrong("brackets that match")
                if not open_:
                    self.at = found.end()
                    return self.text[start + 1 : found.start()]
        raise self.wrong(
            "a closing bracket", f"{self.text[start]!r} without its partner", hint="the file may be cut off"
        )

    def value(self) -> str:
        """An attribute's text: up to the next comma or line end outside brackets."""
        start = self.at
        while (found := _VALUE.search(self.text, self.at)) is not None:
            token = found[0]
            if token in _CLOSING:
                self.at = found.start()
                self.balanced()
            elif token in ")}],\n":
                self.at = found.start()
                break
            else:
                self.at = found.end()
        else:
            self.at = len(self.text)
        return self.text[start : self.at].strip()

    def attributes(self) -> dict[str, str]:
        """``, key=value`` up to the end of the line."""
        found: dict[str, str] = {}
        while (key := self.skip(_PLAIN)) is not None or self.take(","):
            plain = key is not None
            if key is None:
                self.skip(_BLANK)
                key = self.skip(_KEY)
            if key is None:
                raise self.wrong("an attribute, name=value")
            if key[1] in found:
                raise self.wrong("every attribute once", f"the attribute {key[1]} twice")
            found[key[1]] = key[2].strip() if plain else self.value()
        self.skip(_SPACE)
        if self.at < len(self.text) and self.text[self.at] != "\n":
            raise self.wrong("the end of the line, or a comma and an attribute")
        return found

    # -- types
    def type(self, depth: int = 0) -> HloType:
        if self.take("("):
            self.place.limits.check("nesting", depth + 1, self.place.text, "tuples inside one another")
            parts: list[HloType] = []
            while not self.take(")"):
                if parts:
                    self.expect(",")
                parts.append(self.type(depth + 1))
            return Tuple(tuple(parts))
        self.skip(_SPACE)
        found = self.skip(_ARRAY)
        if found is None:
            raise self.wrong("a type such as f32[2,3]{1,0}")
        if found[0] not in self.types:
            self.types[found[0]] = self._simple(found)
        return self.types[found[0]]

    def _simple(self, found: re.Match[str]) -> HloType:
        dtype = _DTYPES.get(found[1])
        if dtype is None:
            return Opaque(found[0])
        array = Array(TensorType(self.shape(found[2]), dtype), found[3])
        if array.order is not None and sorted(array.order.split(",")) != sorted(map(str, range(len(array.type.shape)))):
            raise self.wrong("a layout that has every dimension once", f"the layout {shown(found[3])} of {array.type}")
        return array

    def signature(self) -> tuple[tuple[HloType, ...], HloType]:
        """``(name: type, ...) -> type``; names may be missing."""
        self.expect("(")
        parameters: list[HloType] = []
        while not self.take(")"):
            if parameters:
                self.expect(",")
            self.skip(_SPACE)
            self.skip(_PARAMETER)
            parameters.append(self.type())
        self.expect("->")
        return tuple(parameters), self.type()

    def shape(self, text: str) -> Shape:
        sizes = [size.strip() for size in text.split(",")] if text.strip() else []
        self.place.limits.check("dimensions", len(sizes), self.place.text, "dimensions")
        for size in sizes:
            if not (size.isascii() and size.isdigit() and len(size) < 20):
                raise self.wrong(
                    "sizes that are numbers", f"size {shown(size)}", code="symbolic-size",
                    hint="programs with dynamic shapes are not supported: compile with fixed sizes",
                )  # fmt: skip
            if int(size) > self.place.limits.dimension_size:
                raise self.place.limits.exceeded("dimension_size", f"size {size}", self.place.text)
        return tuple(map(int, sizes))

    # -- structure
    def module(self) -> Module:
        self.skip(_BLANK)
        if not self.take("HloModule"):
            raise self.wrong("`HloModule`, with which HLO text starts", code="format")
        name = self.name("the module's name")
        header = self.attributes()
        tables: dict[str, dict[int, str]] = {}
        computations: dict[str, Computation] = {}
        entry: Computation | None = None
        count = 0
        while self.skip(_BLANK) and self.at < len(self.text):
            end = self.text.find("\n", self.at)
            word = self.text[self.at : end if end >= 0 else len(self.text)].strip()
            if _TABLES.match(word):
                self.at = end if end >= 0 else len(self.text)
                tables[word] = self.table()
                continue
            is_entry, computation = self.computation()
            count += len(computation.instructions)
            self.place.limits.check("nodes", count, self.place.text, "instructions")
            if computation.name in computations:
                raise self.wrong("computations with names of their own", f"two computations named {computation.name}")
            computations[computation.name] = computation
            if is_entry:
                if entry is not None:
                    raise self.wrong("one ENTRY computation", f"two: {entry.name} and {computation.name}")
                entry = computation
        if entry is None:
            raise self.wrong("an ENTRY computation", f"{len(computations)} computations, none of them ENTRY")
        return Module(name, header, computations, entry, _frames(tables))

    def table(self) -> dict[int, str]:
        rows: dict[int, str] = {}
        while True:
            self.skip(_BLANK)
            row = self.skip(_ROW)
            if row is None:
                return rows
            rows[int(row[1])] = row[2]

    def computation(self) -> tuple[bool, Computation]:
        line = self.line()
        start = self.at
        name = self.name("a computation")
        is_entry = name == "ENTRY" and self.text[start] != "%"
        if is_entry:
            name = self.name("the computation's name")
        self.skip(_SPACE)
        signature = self.signature() if self.text.startswith("(", self.at) else None
        self.expect("{")
        instructions: list[Instruction] = []
        names: set[str] = set()
        while True:
            self.skip(_BLANK)
            if self.at >= len(self.text):
                raise self.wrong(f"the closing brace of computation {name}", hint="the file may be cut off")
            if self.take("}"):
                break
            instruction = self.instruction()
            if instruction.name in names:
                raise self.wrong("instructions with names of their own", f"two instructions named {instruction.name}")
            names.add(instruction.name)
            instructions.append(instruction)
        self.attributes()  # execution_thread and the like: where it runs, not what it computes
        roots = sum(instruction.root for instruction in instructions)
        if roots != 1:
            raise self.wrong("one ROOT instruction", f"{roots} in computation {name}")
        return is_entry, Computation(name, tuple(instructions), line, signature)

    def head(self) -> tuple[bool, str, HloType, str]:
        """The start of an instruction: True if it is the root, its name, type and opcode; the position is then at its
        operands."""
        plain = _HEAD.match(self.text, self.at)
        if plain is not None and plain[3] in self.types and plain[2] != "ROOT":
            self.at = plain.end()
            return plain[1] is not None, plain[2].removeprefix("%"), self.types[plain[3]], plain[4]
        start = self.at
        name = self.name("an instruction, name = type opcode(operands)")
        root = name == "ROOT" and self.text[start] != "%"
        if root:
            name = self.name("the instruction's name")
        self.expect("=")
        type_ = self.type()
        opcode = self.name("an opcode")
        self.skip(_SPACE)
        return root, name, type_, opcode

    def instruction(self) -> Instruction:
        line = self.line()
        root, name, type_, opcode = self.head()
        if not self.text.startswith("(", self.at):
            raise self.wrong("'(' and operands")
        inside = self.balanced().strip()
        parts = _operands(inside) if opcode not in ("constant", "parameter") else ()
        printed: dict[str, HloType] = {}
        for operand, before in parts:
            if before in self.types:
                printed[operand] = self.types[before]
            elif before:
                printed[operand] = _Parser(before, self.place.at(f"line {line}: %{name}: operand {operand}")).type()
        operands = tuple(operand for operand, _ in parts)
        return Instruction(name, type_, opcode, operands, inside, self.attributes(), line, root, printed)


def _without_comments(text: str) -> str:
    """The text with the line ends of its comments only; strings as they are."""
    kept: list[str] = []
    at = copied = 0
    while (found := _COMMENT.search(text, at)) is not None:
        at = found.end()
        if found[0] == "/*":
            end = text.find("*/", at)
            if end < 0:
                break
            kept += [text[copied : found.start()], " ", "\n" * text.count("\n", at, end)]
            at = copied = end + 2
    return "".join([*kept, text[copied:]])


def _operands(inside: str) -> tuple[tuple[str, str], ...]:
    """The last name of each part between commas outside brackets, and what is before it (its type); a part without a
    name is kept as it is."""
    if not inside:
        return ()
    if not any(bracket in inside for bracket in "([{"):
        parts = inside.split(",")
    else:
        parts: list[str] = []
        depth = start = 0
        for k, character in enumerate(inside):
            if character in "([{":
                depth += 1
            elif character in ")]}":
                depth -= 1
            elif character == "," and not depth:
                parts.append(inside[start:k])
                start = k + 1
        parts.append(inside[start:])
    return tuple(map(_named, parts))


def _named(part: str) -> tuple[str, str]:
    text = part.strip()
    plain = _ONE_NAME.match(text)
    if plain is not None:
        return plain[1], ""
    start = len(text)
    while start and (text[start - 1].isalnum() or text[start - 1] in "_.-"):
        start -= 1
    while start < len(text) and not (text[start].isascii() and (text[start].isalpha() or text[start] == "_")):
        start += 1
    if start == len(text):
        return text, ""
    return text[start:], text[:start].removesuffix("%").strip()


def _frames(tables: Mapping[str, Mapping[int, str]]) -> dict[int, tuple[str, int, str]]:
    """File, line and function of each stack frame, as far as the tables say."""
    files, functions = tables.get("FileNames", {}), tables.get("FunctionNames", {})
    locations = tables.get("FileLocations", {})
    frames: dict[int, tuple[str, int, str]] = {}
    for number, row in tables.get("StackFrames", {}).items():
        location = dict(_FIELD.findall(locations.get(int(dict(_FIELD.findall(row)).get("file_location_id", 0)), "")))
        if "line" in location:
            file = files.get(int(location.get("file_name_id", 0)), "").strip('"')
            function = functions.get(int(location.get("function_name_id", 0)), "").strip('"')
            frames[number] = (file, int(location["line"]), function)
    return frames
