"""Named limits on untrusted input: what is cut off, by which limit, how to raise it. Imports only ``errors``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from tantamount.errors import UserError

__all__ = ["Limits", "limits_from_environment"]

_PREFIX = "TANTAMOUNT_LIMIT_"


@dataclass(frozen=True, slots=True)
class Limits:
    """Upper bounds, each inclusive. Pass a changed copy (``Limits(nodes=10)``) or set ``TANTAMOUNT_LIMIT_NODES=10``.

    ``file_bytes``: one file as stored; ``decompressed_bytes``: the same after gzip; ``values``: of one JSON or TOML
    file, numbers and names included; ``nodes``: of one graph;
    ``string_length``: characters of one string; ``nesting``: lists inside lists, expressions inside expressions;
    ``dimensions``: of one tensor; ``dimension_size``: elements along one dimension; ``constant_elements``: of one
    recorded constant; ``expression_length``: characters of one clean expression; ``ranks``: of one mesh;
    ``witness_elements``: of all tensors together when both programs are executed in search of a counterexample,
    ``witness_work``: element operations of one such execution.
    """

    file_bytes: int = 1 << 27
    decompressed_bytes: int = 1 << 27
    values: int = 5_000_000
    nodes: int = 1_000_000
    string_length: int = 1 << 16
    nesting: int = 50
    dimensions: int = 64
    dimension_size: int = (1 << 63) - 1
    constant_elements: int = 1 << 24
    expression_length: int = 1 << 22
    ranks: int = 1 << 17
    witness_elements: int = 50_000_000
    witness_work: int = 20_000_000_000

    def check(self, name: str, found: int, place: str, what: str) -> None:
        """Raise :class:`UserError` ``limit-<name>`` if ``found`` (a count of ``what``) exceeds the limit ``name``."""
        limit: int = getattr(self, name)
        if found > limit:
            count = f"{found}" if found < 1 << 64 else f"more than 2^{found.bit_length() - 1}"
            raise self.exceeded(name, f"{count} {what}", place)

    def exceeded(self, name: str, found: str, place: str) -> UserError:
        """The error for input beyond the limit ``name``."""
        limit: int = getattr(self, name)
        return UserError(
            f"limit-{name.replace('_', '-')}", place=place, found=found, needed=f"at most {limit} (limit {name})",
            hint=f"if the file is trusted, raise the limit: {_PREFIX}{name.upper()}=<number>",
        )  # fmt: skip


def limits_from_environment(environment: Mapping[str, str] | None = None) -> Limits:
    """The default limits, changed by the ``TANTAMOUNT_LIMIT_<NAME>`` variables: the only place where they are read.

    Raises :class:`UserError` for an unknown name or a value that is not a non-negative integer.
    """
    names = {field.name for field in fields(Limits)}
    changes: dict[str, int] = {}
    for variable, text in (os.environ if environment is None else environment).items():
        if not variable.startswith(_PREFIX):
            continue
        name = variable[len(_PREFIX) :].lower()
        if name not in names:
            raise UserError(
                "limit-unknown",
                place=f"environment {variable}",
                found=f"limit {name!r}",
                needed=f"one of {', '.join(sorted(names))}",
            )
        if not (text.isascii() and text.isdigit()) or len(text) > 18:
            raise UserError(
                "limit-value",
                place=f"environment {variable}",
                found=repr(text[:40]),
                needed="a non-negative integer of at most 18 digits",
            )
        changes[name] = int(text)
    return replace(Limits(), **changes)
