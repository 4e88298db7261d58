"""Hostile input: odd calls of every operator and corrupted files of every format. What exit code does each give, in
how much time and memory?

    python benchmarks/fuzz_hostile.py --calls 6000 --files 10000 --seed 1 --workers 2

Every case is read and proved in a worker process as the command would: the answer must be a verdict, or an error of
exit code 2; never an internal error (exit code 4), more than 60 s, or more memory than 2 GB (address space, which is
limited to that; the table has the most that was resident during one case). A case that a worker does not survive counts
as one of these. Prints a table, and every failure with its seed. Exit code 1 if there is one.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import random
import resource
import signal
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT / "tests")]

SECONDS, BYTES = 60, 2 << 30
CHUNK = 50
JOB = """format = "job/1"
[spec]
graph = "spec.json"
[impl]
graph = "spec.json"
mesh = {}
[inputs]
default = "Replicate()"
"""


class TooSlow(BaseException):
    """The time of one case is over."""


# ---------------------------------------------------------------------------------------------- kinds of cases
def operators(rng: random.Random, folder: Path) -> int:
    from support.hostile import in_folder, odd_call, packed

    in_folder(folder, {"spec.json": packed(odd_call(rng)), "job.toml": JOB.encode()})
    return _refined(folder / "job.toml")


def json_by_type(rng: random.Random, folder: Path) -> int:
    from support.hostile import corrupted_json, in_folder, packed

    files = dict(_pairs()[rng.randrange(len(_pairs()))])
    name = rng.choice([name for name in files if name.endswith(".json")])
    files[name] = packed(corrupted_json(json.loads(files[name]), rng))
    in_folder(folder, files)
    return _refined(folder / "job.toml")


def bytes_of_graphs(rng: random.Random, folder: Path) -> int:
    from support.hostile import corrupted_bytes, in_folder, zipped

    files = dict(_pairs()[rng.randrange(len(_pairs()))])
    name = rng.choice(sorted(files))
    if rng.random() < 0.3 and name.endswith(".json"):
        files[name + ".gz"] = corrupted_bytes(zipped(files.pop(name)), rng)
        files["job.toml"] = files["job.toml"].replace(name.encode(), name.encode() + b".gz")
    else:
        files[name] = corrupted_bytes(files[name], rng)
    in_folder(folder, files)
    return _refined(folder / "job.toml")


def toml(rng: random.Random, folder: Path) -> int:
    from support.hostile import corrupted_toml, in_folder

    files = dict(_pairs()[rng.randrange(len(_pairs()))])
    files["job.toml"] = corrupted_toml(files["job.toml"].decode(), rng).encode("utf-8", "surrogatepass")
    in_folder(folder, files)
    return _refined(folder / "job.toml")


def hlo(rng: random.Random, folder: Path) -> int:
    from support.hostile import corrupted_hlo, in_folder

    text = _modules()[rng.randrange(len(_modules()))]
    job = JOB.replace("spec.json", "spec.hlo")
    in_folder(folder, {"spec.hlo": corrupted_hlo(text, rng).encode("utf-8", "surrogatepass"), "job.toml": job.encode()})
    return _refined(folder / "job.toml")


def certificates(rng: random.Random, folder: Path) -> int:
    from support.hostile import corrupted_bytes, corrupted_json, in_folder, packed
    from tantamount.certificate.check import check_certificate
    from tantamount.certificate.document import sealed

    files = dict(_certified())
    content = json.loads(files["cert.json"])
    kind = rng.random()
    if kind < 0.2:
        files["cert.json"] = corrupted_bytes(files["cert.json"], rng)
    else:
        broken = corrupted_json(content, rng)
        if kind < 0.7 and isinstance(broken, dict):
            with contextlib.suppress(ValueError, RecursionError, TypeError):
                broken = sealed(broken)
        files["cert.json"] = packed(broken)
    in_folder(folder, files)
    return check_certificate(folder / "cert.json").exit_code


def _folders(name: str) -> Callable[[random.Random, Path], int]:
    """A kind of :mod:`support.hostile_folders`, which is imported by the workers only."""

    def case(rng: random.Random, folder: Path) -> int:
        from support import hostile_folders

        return getattr(hostile_folders, name)(rng, folder)

    return case


KINDS: dict[str, tuple[str, Callable[[random.Random, Path], int]]] = {
    "operators": ("odd calls of operators", operators),
    "json": ("JSON, changed by type", json_by_type),
    "bytes": ("bytes of graphs and jobs", bytes_of_graphs),
    "toml": ("TOML", toml),
    "hlo": ("HLO", hlo),
    "certificates": ("certificates", certificates),
    "plans": ("plans and their programs", _folders("plans")),
    "modules": ("generated modules", _folders("modules")),
    "findings": ("findings of campaigns", _folders("findings")),
    "onnx": ("bytes of ONNX models", _folders("onnx")),
    "lemmas": ("certificates with lemmas", _folders("lemmas")),
}
SHARE = {"operators": 1.0, "findings": 0.05, "lemmas": 0.02, "plans": 0.1, "modules": 0.1, "onnx": 0.1}
"""Cases of a kind: the share of ``--files`` (of ``--calls`` for the first), a fifth for those that are not here."""


def _refined(job: Path) -> int:
    from tantamount.answers import refine
    from tantamount.capture.job import read_job
    from tantamount.report import json_report, text

    report = refine(read_job(job))
    json_report.as_text(json_report.as_document([json_report.as_job(report)], exit_code=0, version=""))
    "".join(text.text(report))
    return report.exit_code


@cache
def _pairs() -> tuple[Mapping[str, bytes], ...]:
    """Small jobs with their graphs."""
    folders = [ROOT / "examples/mlp_tp2", ROOT / "examples/gpt_tp2"]
    found = [
        {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix in (".json", ".toml")}
        for folder in folders
    ]
    return (*found[:1] * 4, found[1])  # the small one more often


@cache
def _modules() -> tuple[str, ...]:
    folder = ROOT / "tests/data/hlo"
    texts: list[str] = []
    for name in ("one.json", "ranks.json"):
        texts += _texts(json.loads((folder / name).read_text()))
    return tuple(texts)


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, list) and value and str(value[0]).startswith("HloModule"):
        yield "\n".join(value)
    elif isinstance(value, (dict, list)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)


@cache
def _certified() -> Mapping[str, bytes]:
    from tantamount.answers import refine
    from tantamount.capture.job import read_job

    files = dict(_pairs()[0])
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for key, data in files.items():
            (folder / key).write_bytes(data)
        refine(read_job(folder / "job.toml")).save_certificate(folder / "cert.json")
        return files | {"cert.json": (folder / "cert.json").read_bytes()}


# ---------------------------------------------------------------------------------------------- running them
def one(kind: str, seed: int) -> tuple[int, str]:
    """The exit code of a case, and what is wrong with it."""
    from tantamount.report.outcomes import ENVIRONMENT, INTERNAL, failure

    longest = 60 * 1024
    with tempfile.TemporaryDirectory() as folder:
        try:
            code = KINDS[kind][1](random.Random(f"{kind} {seed}"), Path(folder))
        except TooSlow as problem:
            import traceback

            return -1, f"more than {SECONDS} s\n{''.join(traceback.format_exception(problem)[-12:])}"
        except Exception as problem:
            told = failure("", problem, "")
            if told.exit_code in (INTERNAL, ENVIRONMENT):
                return told.exit_code, f"{told}\n{told.trace[-3000:]}"
            if len(str(told)) > longest // 6:
                return told.exit_code, f"a message of {len(str(told))} characters"
            return told.exit_code, ""
    return code, ""


def work(connection: Connection, kind: str, seeds: range) -> None:
    """Runs cases and tells of each before and after, so that a death has a seed."""

    def late(*_: object) -> None:
        raise TooSlow

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGPROF, late)
    resource.setrlimit(resource.RLIMIT_AS, (BYTES, BYTES))
    for seed in seeds:
        connection.send(("start", seed, 0, "", (0.0, 0)))
        started = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, SECONDS)
        try:
            _forget_peak()
            code, wrong = one(kind, seed)
        except TooSlow:
            code, wrong = -1, f"more than {SECONDS} s"
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send(("done", seed, code, wrong, (time.process_time() - started, _peak())))
    connection.close()


def _forget_peak() -> None:
    """Have the kernel measure the most memory that is resident anew."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    """The most bytes of this process that were resident since then."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(next(line for line in status.splitlines() if line.startswith("VmHWM:")).split()[1])


def run(kind: str, cases: range, workers: int) -> tuple[Counter[int], dict[str, list[tuple[int, str]]], float, int]:
    """How often each exit code, failures by their last line with seeds, the seconds of the slowest case, and the bytes
    that were resident in the largest."""
    codes: Counter[int] = Counter()
    wrong: dict[str, list[tuple[int, str]]] = defaultdict(list)
    slowest, largest = 0.0, 0
    waiting = [cases[k : k + CHUNK] for k in range(0, len(cases), CHUNK)]
    context = multiprocessing.get_context("fork")
    running: dict[Connection, tuple[Any, range, int | None]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            seeds = waiting.pop()
            receiver, sender = context.Pipe(duplex=False)
            process = context.Process(target=work, args=(sender, kind, seeds), daemon=True)
            process.start()
            sender.close()
            running[receiver] = process, seeds, None
        for receiver in wait(list(running)):
            assert isinstance(receiver, Connection)
            process, seeds, current = running[receiver]
            try:
                what, seed, code, text, cost = receiver.recv()
            except EOFError:
                process.join()
                del running[receiver]
                receiver.close()
                if current is not None:
                    codes[-2] += 1
                    wrong[f"the process died with {process.exitcode}"].append((current, ""))
                    waiting.append(range(current + 1, seeds.stop))
                continue
            if what == "start":
                running[receiver] = process, seeds, seed
                continue
            running[receiver] = process, seeds, None
            codes[code] += 1
            slowest, largest = max(slowest, cost[0]), max(largest, cost[1])
            if text:
                wrong[f"{code}: {_last(text)}"].append((seed, text))
    return codes, wrong, slowest, largest


def every_attribute() -> int:
    """How many calls fail that have one argument of a sample replaced by an odd one: all operators, types only."""
    from support.odd_arguments import odd_calls, problem_of

    started, count, failures = time.monotonic(), 0, 0
    for call in odd_calls():
        count += 1
        problem = problem_of(call)
        if problem is not None:
            failures += 1
            print(f"==== {problem!r}: {call}")
    print(f"every argument of every operator: {count} calls in {time.monotonic() - started:.0f} s, {failures} failures")
    return failures


def _last(text: str) -> str:
    lines = [line for line in text.splitlines() if line.strip()]
    found = [line for line in lines if line.startswith("  found:")]
    at = [line.strip() for line in lines if line.strip().startswith("File ")]
    return f"{(found or lines)[-1][:160]}  {at[-1] if at else ''}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=6000, help="odd calls of operators")
    parser.add_argument("--files", type=int, default=10_000, help="corrupted files, a share for each format")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--case", type=int, help="one case of one KIND by the seed that a failure printed")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    options = parser.parse_args()
    if options.case is not None:
        print(*one(options.kinds[0], options.case))
        return 0
    import numpy  # noqa: F401 - before the workers fork

    from support import hostile  # noqa: F401
    from tantamount.answers import refine  # noqa: F401

    failures = 0
    if not options.kinds:
        failures += every_attribute()
    print(f"{'input':28} {'cases':>6} {'seconds':>8} {'slowest':>8} {'largest':>8}   exit code: cases")
    for kind in options.kinds or KINDS:
        count = int((options.calls if kind == "operators" else options.files) * SHARE.get(kind, 0.2))
        started = time.monotonic()
        first = options.seed * 1_000_000
        codes, wrong, slowest, largest = run(kind, range(first, first + count), options.workers)
        exits = ", ".join(f"{code}: {number}" for code, number in sorted(codes.items()))
        print(
            f"{KINDS[kind][0]:28} {count:6} {time.monotonic() - started:6.0f} s {slowest:6.1f} s "
            f"{largest >> 20:5} MB   {exits}",
            flush=True,
        )
        for text, cases in sorted(wrong.items(), key=lambda entry: -len(entry[1])):
            failures += len(cases)
            print(
                f"==== {len(cases)} x {text}\n     seeds {[seed for seed, _ in cases[:5]]}\n{cases[0][1]}", flush=True
            )
    print(f"{failures} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    raise SystemExit(main())
