"""Certificates: is every honest one accepted, and every corrupted or forged one rejected?

    python benchmarks/bench_certificates.py [--of-each 50] [--seed 1] [--forgeries-only | --jobs SUBSTRING]

Jobs are the captured ones and the repaired halves of known bugs in the folder ``TANTAMOUNT_SHARED``, and the examples.
Half of the corrupted certificates have one byte changed (of a graph, the job, or the certificate); the other half have
another meaning, with every hash computed anew: a relation, a placement, an assumption, or a graph. Forged ones
(``tests/support/forgeries.py``) have an implementation that agrees with the specification on easy inputs only, or lack
an assumption; they are counted by class. Exit code 1 if one honest certificate is not accepted or another one is not
rejected.
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.certificates import Corrupted, Kept, keep, of_bytes, of_meaning, rejected, verify
from support.forgeries import assumptions_removed, forgeries, one_sided
from support.mutants import corpus
from tantamount import read_job
from tantamount.semantics.survey import survey

SMALL = 1_000_000  # elements of a specification whose meaning is changed: it is executed at its own shapes


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--of-each", type=int, default=50, help="corrupted certificates of each half")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--forgeries-only", action="store_true", help="neither captured jobs nor corrupted files")
    parser.add_argument("--jobs", default="", help="no forgeries, and only jobs whose path has this in it")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        unrejected = 0 if options.jobs else forged(Path(folder))
        if options.forgeries_only:
            return 1 if unrejected else 0
        kept = honest(Path(folder), options.jobs)
        bad = sum(not ok for _, ok in kept)
        proofs = [one for one, _ in kept]
        missed = bytewise(proofs, Path(folder), options.of_each, options.seed)
        missed += meaningful(proofs, Path(folder), options.of_each, options.seed)
    print(f"\nhonest certificates accepted: {len(kept) - bad} of {len(kept)}")
    print(f"corrupted certificates rejected: {2 * options.of_each - missed} of {2 * options.of_each}")
    return 1 if bad or missed or unrejected else 0


def forged(folder: Path) -> int:
    """How many forged certificates are not rejected; prints a table of their classes."""
    made = Counter[str]()
    caught = Counter[str]()
    started = time.process_time()
    for one in forgeries(folder / "forged"):
        kind = f"{'integers' if one.discrete else 'reals'}: {one.kind}"
        made[kind] += 1
        caught[kind] += any(" fails" in problem for problem in verify(one.kept).problems)
    for number, kept in enumerate(one_sided(folder / "needing")):
        if not verify(kept).accepted:
            sys.exit(f"{kept.name} is honest, and not accepted")
        for one in assumptions_removed(kept, folder / "removed" / str(number)):
            made[one.kind] += 1
            caught[one.kind] += "is missing" in rejected(one.kept)
    for kind, count in made.items():
        print(f"{kind:45} {caught[kind]:4} of {count:4} rejected")
    whole = sum(made.values())
    spent = time.process_time() - started
    print(f"forged certificates rejected: {sum(caught.values())} of {whole}   {spent:.1f} CPU s, proofs included\n")
    return whole - sum(caught.values())


def honest(folder: Path, jobs: str) -> list[tuple[Kept, bool]]:
    """Every proved job (whose path has ``jobs`` in it) with its certificate, and whether that is accepted."""
    found: list[tuple[Kept, bool]] = []
    for number, path in enumerate([*corpus.captured(), *corpus.examples()]):
        kept = None if jobs not in str(path) else keep(path, folder / "honest" / str(number))
        if kept is None:
            continue
        started = time.process_time()
        checked = verify(kept)
        spent = time.process_time() - started
        steps = [*checked.outputs, *checked.relations]
        exact = sum(step.exactly for step in steps)
        verdict = "accepted" if checked.accepted else f"NOT ACCEPTED: {(*checked.problems, *checked.unchecked)[0]}"
        print(f"{kept.name:<48} {verdict}, {exact} of {len(steps)} exactly, {spent:.2f} CPU s", flush=True)
        found.append((kept, checked.accepted))
    return found


def bytewise(proofs: list[Kept], folder: Path, count: int, seed: int) -> int:
    """How many certificates with one byte changed somewhere are not rejected."""
    missed = 0
    for number in range(count):
        corrupted = of_bytes(proofs[number % len(proofs)], folder / "bytes" / str(number), seed + number)
        missed += not told(corrupted)
    return missed


def meaningful(proofs: list[Kept], folder: Path, count: int, seed: int) -> int:
    """How many certificates with another meaning and right hashes are not rejected: of every kind, of small jobs."""
    chance = random.Random(seed)
    small = [kept for kept in proofs if survey(read_job(kept.job).specification).kept < SMALL]
    bugs = {path.parent.name: path.with_name("bug.toml") for path in corpus.captured() if path.name == "ok.toml"}
    pool: list[Corrupted] = []
    for number, kept in enumerate(small):
        bug = bugs.get(kept.name.split("/")[0])
        pool += of_meaning(kept, folder / "meaning" / str(number), seed + number, bug)
        print(f"corrupted {kept.name}: {len(pool)} so far", flush=True)
    if len(pool) < count:
        sys.exit(f"only {len(pool)} corrupted certificates could be made")
    return sum(not told(corrupted) for corrupted in chance.sample(pool, count))


def told(corrupted: Corrupted) -> bool:
    why = rejected(corrupted.kept)
    print(
        f"{'rejected' if why else 'ACCEPTED'}  {corrupted.kept.name}: {corrupted.what[:90]}   {why[:110]}", flush=True
    )
    return bool(why)


if __name__ == "__main__":
    raise SystemExit(main())
