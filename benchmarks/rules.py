"""Proves all rules anew and writes the record, ``rules/library/evidence.toml``; exits with 1 if one is not proved.

python benchmarks/rules.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import tomli_w

import tantamount.rules.library as library
from tantamount.rules.record import document


def main() -> int:
    table = library.rules()
    found = document(table)
    (Path(library.__file__).parent / "evidence.toml").write_text(tomli_w.dumps(found))
    print(f"{len(found)} of {len(table)} rules are proved")
    for name in set(table) - set(found):
        print(f"not proved: {name}")
    return int(len(found) < len(table))


if __name__ == "__main__":
    sys.exit(main())
