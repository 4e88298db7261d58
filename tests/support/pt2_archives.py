"""Archives of ``torch.export``, taken apart and put together again with something changed."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from zipfile import ZipFile, ZipInfo

__all__ = ["changed", "members_of", "packed"]


def members_of(data: bytes) -> dict[str, bytes]:
    """The members of an archive, by their names."""
    with ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members: Mapping[str, bytes]) -> bytes:
    """An archive of some members, as they are."""
    out = io.BytesIO()
    with ZipFile(out, "w") as archive:
        for name, data in members.items():
            archive.writestr(ZipInfo(name), data)
    return out.getvalue()


def changed(text: str, edit: Callable[[str], str]) -> str:
    """An archive, one character for every byte, with the JSON of its program edited."""
    members = members_of(text.encode("latin-1"))
    name = next(name for name in members if "/models/" in name)
    members[name] = edit(members[name].decode()).encode("utf-8", "surrogatepass")
    return packed(members).decode("latin-1")
