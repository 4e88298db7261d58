"""Every pair of programs of ``support.singular``: what PyTorch says of them where some are undefined, and the verdict.

Exit code 1 if a pair that differs is PROVED, or one that agrees is REFUTED."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from support.singular import agree, pairs, verdict
from tantamount.verdict import Verdict

_COLUMNS = (Verdict.PROVED, Verdict.REFUTED, Verdict.UNKNOWN)


def main() -> int:
    counts: dict[str, Counter[tuple[bool, Verdict]]] = {}
    wrong: list[str] = []
    for pair in pairs():
        same = agree(pair)
        found, reason = verdict(pair)
        counts.setdefault(pair.family.name, Counter())[same, found] += 1
        if found is (Verdict.REFUTED if same else Verdict.PROVED):
            wrong.append(f"{found.name} wrongly: {pair}\n  {reason}")
    print(f"{'':32}" + "".join(f"{title:>30}" for title in ("PyTorch agrees", "PyTorch differs")))
    print(f"{'family':32}" + "".join(f"{v.name:>10}" for v in (*_COLUMNS, *_COLUMNS)))
    for name, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        print(f"{name:32}" + "".join(f"{count[same, v]:10}" for same in (True, False) for v in _COLUMNS))
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
