"""Hashes of what files say: compression, white space and the order of keys do not count."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from tantamount.capture.documents import parse_json, parse_toml
from tantamount.capture.fields import Place
from tantamount.capture.files import read_text
from tantamount.errors import UserError
from tantamount.limits import Limits

__all__ = ["canonical", "digest_of", "digest_of_file"]


def canonical(content: object) -> str:
    """The one JSON text of some content: keys in order, no white space, ASCII only."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def digest_of(content: object) -> str:
    """SHA-256 of the canonical text, in hexadecimal."""
    return hashlib.sha256(canonical(content).encode()).hexdigest()


def digest_of_file(path: Path, limits: Limits) -> str:
    """The hash of a job (TOML) or a graph (JSON or HLO text, plain or gzip). Text that is neither JSON nor TOML counts
    as it is, but for its line ends. Raises :class:`UserError` for a file that cannot be read."""
    text = read_text(path, limits)
    name = path.name.removesuffix(".gz")
    try:
        if name.endswith(".toml"):
            return digest_of(parse_toml(text, Place("job", str(path), limits)))
        if name.endswith(".json"):
            return digest_of(parse_json(text, Place("graph", str(path), limits)))
    except (ValueError, RecursionError, TypeError) as problem:
        raise UserError(
            "certificate-content", place=str(path), found=f"{problem}"[:200], needed="a job or graph that can be read"
        ) from None
    return digest_of(text.replace("\r\n", "\n"))
