"""The members of a ``.pt2`` archive: a zip file, of which only those that are asked for are read, each within limits.

Nothing is extracted: a member is found by its name in the table of contents, and a name leads nowhere else.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from struct import error as StructError
from typing import BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo

import numpy as np

from tantamount.capture.documents import parse_json
from tantamount.capture.fields import Fields, Place, shown
from tantamount.capture.pt2.types import Layout, layout_of
from tantamount.capture.raw_numbers import numbers_of
from tantamount.errors import environment_fault
from tantamount.semantics.reference import Array

__all__ = ["Archive", "Payload"]

_BROKEN = (  # what zipfile raises for bytes that are no zip file
    BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, LookupError, OverflowError,
    OSError, StructError,
)  # fmt: skip
_HINT = "cut off or changed? save it again with torch.export.save"
_PAYLOAD = ("path_name", "is_param", "use_pickle", "tensor_meta")


class _Bounded:
    """A file of which no more is read than the limit ``file_bytes``: a zip file has a table of contents that is read in
    one piece, however long it says that it is."""

    def __init__(self, file: BinaryIO, place: Place) -> None:
        self._file = file
        self._place = place
        self._read = 0

    def read(self, size: int = -1) -> bytes:
        limits = self._place.limits
        allowed = limits.file_bytes - self._read
        data = self._file.read(allowed + 1 if size < 0 else min(size, allowed + 1))
        self._read += len(data)
        limits.check("file_bytes", self._read, self._place.text, "bytes that are read")
        return data

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def seekable(self) -> bool:
        return True

    def close(self) -> None:
        """Whoever opened the file closes it."""


@dataclass(frozen=True)
class Payload:
    """A tensor of the archive. ``memory`` is the member that its bytes are in, ``pickled`` is true if only unpickling
    would tell them; ``layout``: its type and where its elements are (``None`` for an object that is no tensor)."""

    memory: str
    pickled: bool
    layout: Layout | None


@dataclass
class Archive:
    """An open archive. ``root`` is the folder that all its members are in, ``spent`` the bytes that were read."""

    zip: ZipFile
    place: Place
    members: Mapping[str, ZipInfo]
    root: str
    spent: int = field(default=0)

    @staticmethod
    def of(file: BinaryIO, place: Place) -> Archive:
        """Raises :class:`UserError` for what is no archive of this kind."""
        try:
            archive = ZipFile(_Bounded(file, place))  # type: ignore[arg-type]
        except _BROKEN as problem:
            raise _broken(problem, place) from None
        members: dict[str, ZipInfo] = {}
        for info in archive.infolist():
            if info.filename in members:
                raise place.wrong(f"two members {shown(info.filename)}", "every member once", code="pt2-archive")
            members[info.filename] = info
        roots = [name.removesuffix("/archive_format") for name in members if name.endswith("/archive_format")]
        if len(roots) != 1 or "/" in roots[0]:
            raise place.wrong(
                "a zip file without `archive_format`" if not roots else f"{len(roots)} members `archive_format`",
                "an archive of torch.export.save", code="pt2-archive",
                hint="PyTorch 2.13 writes them; older versions wrote others",
            )  # fmt: skip
        found = Archive(archive, place, members, roots[0])
        for name, wanted in (("archive_format", "pt2"), ("archive_version", "0"), ("byteorder", "little")):
            if (text := found.read(name).decode("latin-1").strip()) != wanted:
                raise place.at(name).wrong(shown(text), wanted, code="pt2-version")
        return found

    def read(self, name: str) -> bytes:
        """The bytes of a member, by its name below the root. Raises :class:`UserError`: missing, packed in another way
        than PyTorch does, broken, or beyond the limit ``decompressed_bytes``, which all that is read counts for."""
        place = self.place.at(name)
        info = self.members.get(f"{self.root}/{name}")
        if info is None:
            raise place.wrong("no such member", "the member", code="pt2-archive", hint=_HINT)
        if info.compress_type not in (ZIP_STORED, ZIP_DEFLATED) or info.flag_bits & 1:
            raise place.wrong("a member that is encrypted or packed in an unusual way", "a plain one",
                              code="pt2-archive")  # fmt: skip
        self.spent += info.file_size
        place.limits.check("decompressed_bytes", self.spent, place.text, "bytes of members")
        try:
            with self.zip.open(info) as member:
                data = member.read(info.file_size + 1)
        except _BROKEN as problem:
            raise _broken(problem, place) from None
        if len(data) != info.file_size:
            raise place.wrong(f"{len(data)} bytes", f"{info.file_size} bytes", code="pt2-archive", hint=_HINT)
        return data

    def json(self, name: str) -> object:
        """The value of a member that is JSON. Raises :class:`UserError`."""
        place = self.place.at(name)
        try:
            text = self.read(name).decode("utf-8")
        except UnicodeDecodeError as problem:
            raise place.wrong(f"byte {problem.start} of no UTF-8 text", "JSON", code="json") from None
        return parse_json(text, place)

    def model(self) -> str:
        """The name of the one program in the archive. Raises :class:`UserError` if there are more, or none."""
        start, end = f"{self.root}/models/", ".json"
        names = [n[len(start) : -len(end)] for n in self.members if n.startswith(start) and n.endswith(end)]
        if len(names) != 1:
            listed = ", ".join(shown(name) for name in names[:4]) or "none"
            raise self.place.at("models").wrong(f"{len(names)} programs: {listed}", "one program",
                                                code="pt2-archive")  # fmt: skip
        return names[0]

    def payloads(self, folder: str, model: str) -> dict[str, Payload]:
        """The tensors of a folder (``weights``, ``constants``), by the names that the model has for them."""
        name = f"data/{folder}/{model}_{folder}_config.json"
        top = Fields.of(self.json(name), self.place.at(name), ("config",), ("config",))
        table = top.at("config").table(top.get("config"))
        out: dict[str, Payload] = {}
        for key, value in table.items():
            one = Fields.of(value, top.at("config").at(shown(key)), _PAYLOAD, ("path_name", "use_pickle"))
            meta, pickled = one.get("tensor_meta"), one.get("use_pickle")
            if not isinstance(pickled, bool):
                raise one.at("use_pickle").wrong(shown(pickled), "true or false")
            memory = f"data/{folder}/{one.name('path_name', 'the name of a member')}"
            layout = None if meta is None else layout_of(meta, one.at("tensor_meta"))
            out[key] = Payload(memory, pickled, layout)
        return out

    def numbers(self, payload: Payload, place: Place) -> Array:
        """The numbers of a tensor whose bytes are on record as they are. Raises :class:`UserError` for others."""
        layout = payload.layout
        if payload.pickled or layout is None:
            raise place.wrong(
                "numbers that are kept as a pickle", "numbers as they lie in memory", code="pt2-unsupported",
                hint="a pickle can run any code when it is opened: use plain tensors, not subclasses of them",
            )  # fmt: skip
        type_ = layout.type
        count = prod(type_.shape)
        place.limits.check("constant_elements", count, place.text, "elements of one constant")
        flat = numbers_of(self.read(payload.memory), type_.dtype, place, "pt2-data")
        steps = zip(type_.shape, layout.strides, strict=True)
        last = layout.offset + sum((size - 1) * stride for size, stride in steps)
        if count and last >= flat.size:
            raise place.wrong(f"{flat.size} numbers", f"a number {last}, which the tensor ends with", code="pt2-data")
        if not count:
            return np.zeros(type_.shape, dtype=flat.dtype)
        strides = [stride * flat.itemsize for stride in layout.strides]
        return np.lib.stride_tricks.as_strided(flat[layout.offset :], type_.shape, strides)


def _broken(problem: BaseException, place: Place) -> Exception:
    fault = environment_fault(problem, place.text) if isinstance(problem, OSError) else None
    if fault is not None:
        return fault
    found = f"no zip file ({str(problem)[:80] or type(problem).__name__})"
    return place.wrong(found, "an archive of torch.export.save", code="pt2-archive", hint=_HINT)
