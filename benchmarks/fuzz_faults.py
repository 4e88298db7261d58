"""Faults of the machine under whole processes: what exit code, and is anything said or written that is wrong?

    python benchmarks/fuzz_faults.py --seed 1 --times 40

Streams that are closed or full, a deleted working directory, limits on memory, descriptors and file sizes, file systems
that are full, interruptions and killed workers at random times. The exit code must be that of the same command without
the fault, 5 (the machine gave out), or 130 (interrupted); never a traceback, never a file in parts, never more than 60
seconds. Exit code 1 if not.
"""

from __future__ import annotations

import argparse
import atexit
import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
EXAMPLES = ROOT / "examples"
JOB, WRONG = EXAMPLES / "mlp_tp2/job.toml", EXAMPLES / "mlp_tp2/wrong.toml"
LARGER = EXAMPLES / "gpt_tp2/job.toml"
LIMITED = (
    "import resource, sys; from tantamount.__main__ import main; kind, most = sys.argv[1:3]; del sys.argv[1:3]; "
    "resource.setrlimit(getattr(resource, kind), (int(most), resource.getrlimit(getattr(resource, kind))[1])); main()"
)
SECONDS = 60
_SILENT = ("suggest",)  # of a job that is complete it prints nothing


@dataclass
class Row:
    """The runs of one kind of fault: how often each exit code, and what was wrong."""

    fault: str
    exits: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)
    slowest: float = 0.0

    def note(self, done: Done, allowed: Sequence[int]) -> None:
        self.exits[done.code] += 1
        self.slowest = max(self.slowest, done.seconds)
        text = done.out + done.error
        if done.code not in allowed:
            self.wrong.append(f"exit {done.code}, not one of {sorted(set(allowed))}: {done.what}\n{text[-1500:]}")
        elif "Traceback" in text or "Exception ignored" in text:
            self.wrong.append(f"a traceback: {done.what}\n{text[-1500:]}")


@dataclass(frozen=True)
class Done:
    what: str
    code: int
    out: str
    error: str
    seconds: float


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "tantamount", *map(str, arguments)]


def limited(kind: str, most: int, *arguments: object) -> list[str]:
    return [sys.executable, "-c", LIMITED, kind, str(most), *map(str, arguments)]


def start(words: Sequence[str], **options: object) -> subprocess.Popen[str]:
    paths = (str(ROOT / "src"), os.environ.get("PYTHONPATH", ""))
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths))}
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(words, text=True, env=environment, **(streams | options))  # type: ignore[call-overload]


def finish(process: subprocess.Popen[str], what: str, started: float) -> Done:
    try:
        out, error = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        spent = _processor(process.pid)
        process.kill()
        out, error = process.communicate()
        late = f"still running after {SECONDS} s, {spent:.0f} of them on a processor"
        return Done(what, -1000, out or "", f"{error or ''}\n{late}", SECONDS)
    return Done(what, process.returncode, out or "", error or "", time.monotonic() - started)


def _processor(pid: int) -> float:
    """The seconds that a process has been on a processor (those of its children that ended included)."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def run(words: Sequence[str], **options: object) -> Done:
    started = time.monotonic()
    return finish(start(words, **options), " ".join(words[1:]), started)


Command = tuple[tuple[object, ...], int]  # arguments, and the exit code without a fault
ALSO: tuple[Command, ...] = (
    (("refine", JOB, WRONG), 1),
    (("refine",), 2),
    (("--help",), 0),
    (("explain",), 0),
    (("ops", "aten.mm.default"), 0),
    (("fuzz", "rules"), 0),
)


_RULES = """format = "rules/1"
[rules.doubled]
inputs = { x = "float32[B, N]" }
left = "x + x"
right = "2 * x"
"""
_MODULE = """
import torch


def program():
    return torch.nn.functional.relu, (torch.ones(2, 3),)
"""


@cache
def made() -> tuple[Command, ...]:
    """All commands that read or write something, on what other commands wrote: a certificate, the same one changed, a
    plan, findings, rules, a module; each with the exit code that it has without a fault."""
    folder = Path(tempfile.mkdtemp())
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    good, changed = folder / "good.json", folder / "changed.json"
    run(command("refine", JOB, "--certificate", good))
    changed.write_text(good.read_text().replace("PROVED", "PROVEN"))
    (folder / "rules.toml").write_text(_RULES)
    (folder / "given.py").write_text(_MODULE)
    os.environ["PYTHONPATH"] = str(folder)
    sizes = {"layers": 2, "hidden": 16, "heads": 2, "kv-heads": 2, "ffn": 16, "vocab": 8}
    spread = {"dp": 2, "tp": 2, "pp": 1, "microbatches": 1}
    words = [word for key, value in (sizes | spread).items() for word in (f"--{key}", value)]
    new = ("plan", "new", "llama", *words, "-o")
    run(command(*new, folder / "plan"))
    plan, graph = folder / "plan/plan.toml", Path(JOB).with_name("spec.json")
    campaign = ("fuzz", "run", "--backend", "planted", "--cases", "4", "-o")
    run(command(*campaign, folder / "found"))
    commands: tuple[tuple[object, ...], ...] = (
        ("check", good, "--job", JOB),
        ("check", changed, "--job", JOB),
        ("plan", "verify", plan),
        ("plan", "show", plan),
        (*new, folder / "another plan"),
        ("plan", "mutate", plan, "-o", folder / "mutated", "--count", "2"),
        ("plan", "schedule", "1f1b"),
        ("compare", graph, graph, "--accept", "relation-guessed"),
        ("show", graph),
        ("suggest", JOB),
        ("rules", folder / "rules.toml"),
        ("capture", "given:program", "-o", folder / "captured"),
        ("explain", "real-arithmetic"),
        ("version",),
        ("fuzz", "backends"),
        ("fuzz", "triage", folder / "found"),
        ("fuzz", "replay", folder / "found"),
        ("fuzz", "suite", "--count", "2", "-o", folder / "suite"),
        (*campaign, folder / "again"),
    )
    return tuple((words, run(command(*words)).code) for words in commands)


# ---------------------------------------------------------------------------------------------- kinds of faults
def streams(_: random.Random, __: int) -> Iterator[Row]:
    cases = [(("refine", JOB), 0), (("refine", WRONG), 1), (("refine", "missing.toml"), 2), *ALSO, *made()]
    # redirection -> whether stdout can take nothing
    kinds = {
        "2>&-": False, "2>/dev/full": False, ">&-": True, ">/dev/full": True, "<&- >&- 2>&-": True,
        ">/dev/full 2>/dev/full": True, "<&-": False, "> >(exec 0<&-)": False,
    }  # fmt: skip
    for redirection, lost in kinds.items():
        row = Row(f"streams {redirection}")
        for words, code in cases:
            quoted = " ".join(f"'{word}'" for word in command(*words))
            says = code != 2 and words[0] not in _SILENT
            allowed = [5] if lost and says else [code]
            row.note(run(["bash", "-c", f"{quoted} {redirection}"]), allowed)
        yield row


def deleted_folder(_: random.Random, __: int) -> Iterator[Row]:
    row = Row("working directory deleted")
    for words, code in (
        (("refine", JOB), 0), (("refine", WRONG), 1), (("refine", JOB, WRONG), 1), (("refine", JOB, "--sarif", "-"), 0),
        (("refine", "missing.toml"), 2), (("refine", JOB, "--json", "out.json"), 2),
        (("refine", JOB, JOB, "--html", "out"), 2),
        (("refine", WRONG, "--github"), 1), (("refine", JOB, "--certificate", "c.json"), 2), (("check", "c.json"), 2),
        (("capture", "os:getcwd"), 2),
    ):  # fmt: skip
        folder = tempfile.mkdtemp()
        quoted = " ".join(f"'{word}'" for word in command(*words))
        row.note(run(["bash", "-c", f"cd {folder} && rmdir {folder} && {quoted}"]), [code, 5])
    yield row


def memory(rng: random.Random, times: int) -> Iterator[Row]:
    for words, code in ((("refine", LARGER), 0), (("refine", WRONG), 1), (("refine", JOB, WRONG), 1), *made()):
        row = Row(f"RLIMIT_AS, {words[0]}, {len(words) - 1} words, exit {code}")
        for _ in range(times):
            row.note(run(limited("RLIMIT_AS", rng.randrange(10, 700) << 20, *words)), [code, 5])
        yield row


def descriptors(_: random.Random, __: int) -> Iterator[Row]:
    """Few descriptors, on every command; where they do not suffice, the message says so."""
    few = (
        (("refine", JOB), 0), (("refine", WRONG, "--sarif", "-"), 1), (("refine", JOB, WRONG, JOB), 1), *ALSO, *made(),
    )  # fmt: skip
    for words, code in few:
        row = Row(f"RLIMIT_NOFILE, {_named(words)}, exit {code}")
        for most in (*range(10), 12, 16, 24):
            done = run(limited("RLIMIT_NOFILE", most, *words))
            row.note(done, [code, 5])
            if done.code == 5 and not done.error.strip():
                row.wrong.append(f"{most} descriptors, and no message: {done.what}")
        yield row


def _named(words: Sequence[object]) -> str:
    """The words of a command that are no options or paths."""
    return " ".join(word for word in map(str, words[:3]) if word.replace("-", "").isalpha() and word[0] != "-")


def full_disk(rng: random.Random, times: int) -> Iterator[Row]:
    """A limit on the size of files, and the device that is always full; the old file stays as it is."""
    row = Row("files cannot be written whole")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for option in ("--json", "--html", "--sarif", "--junit", "--certificate"):
            out = folder / "out.html"
            out.write_text("old")
            row.note(run(limited("RLIMIT_FSIZE", rng.randrange(1, 400), "refine", JOB, option, out)), [5])
            if out.read_text() != "old" or len(list(folder.iterdir())) != 1:
                row.wrong.append(f"{option}: {sorted(folder.iterdir())}, {out.read_text()[:100]!r}")
            if option not in ("--html",):
                row.note(run(command("refine", JOB, option, "/dev/full")), [5])
    yield row


def full_file_system(rng: random.Random, times: int) -> Iterator[Row]:
    """Reports, certificates and stdout on a tmpfs that has room for a part of them (a mount in a name space of its own:
    no row where the system has none)."""
    row = Row("tmpfs of 4 to 64 KiB is full")
    inner = "mount -t tmpfs -o size={size}k none {at} && {fill}; {run}; code=$?; ls -A {at} | wc -l >&2; exit $code"
    for option in ("--json", "--html", "--sarif", "--junit", "--certificate", ">"):
        for _ in range(max(1, times // 6)):
            with tempfile.TemporaryDirectory() as at:
                size = rng.choice((4, 8, 16, 64))
                fill = f"head -c {size * 1024 - rng.randrange(200)} /dev/zero > {at}/filled 2> /dev/null"
                words = " ".join(f"'{word}'" for word in command("refine", JOB))
                script = inner.format(size=size, at=at, fill=fill, run=f"{words} {option} {at}/out.html")
                done = run(["unshare", "-rm", "bash", "-c", script])
                if "unshare" in done.error or "mount:" in done.error:
                    return
                row.note(done, [5])
                if option != ">" and done.error.split()[-1:] != ["1"]:
                    row.wrong.append(f"{option}: a part of a file was left: {done.error}")
    yield row


def interruptions(rng: random.Random, times: int) -> Iterator[Row]:
    for label, words, code in (
        ("one job", ("refine", LARGER), 0), ("three jobs", ("refine", LARGER, WRONG, JOB), 1),
        ("help", ("--help",), 0), ("usage", ("refine",), 2),
        *((" ".join(map(str, words[:2]))[:12], words, code) for words, code in made()),
    ):  # fmt: skip
        for group in (False, True):
            row = Row(f"SIGINT to {'the process group' if group else 'the process'}, {label}")
            for _ in range(times):
                row.note(
                    _interrupted(words, rng.uniform(0, 1.5 if label.endswith("jobs") else 0.6), group), [130, code]
                )
            yield row


def _interrupted(words: Sequence[object], after: float, group: bool) -> Done:
    """SIGINT that many seconds after the interpreter has reached our code: before, it is Python's own."""
    while True:  # on a busy machine the signal may come between the line that says so and our first one
        done = _interrupted_once(words, after, group)
        if done.code != -signal.SIGINT or f"{os.sep}tantamount{os.sep}" in done.error:
            return done


def _interrupted_once(words: Sequence[object], after: float, group: bool) -> Done:
    reader, writer = os.pipe()
    program = f"import os, tantamount.__main__ as m; os.write({writer}, b'x'); os.close({writer}); m.main()"
    started = time.monotonic()
    process = start([sys.executable, "-c", program, *map(str, words)], pass_fds=[writer], start_new_session=True)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    time.sleep(0.001 + after)
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if group else os.kill)(process.pid, signal.SIGINT)
    return finish(process, f"SIGINT after {after:.4f} s: {' '.join(map(str, words))}", started)


def killed_workers(rng: random.Random, times: int) -> Iterator[Row]:
    """Any process below the command is killed; the jobs that lost theirs say so, the others have their verdicts."""
    for how in (signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV):
        row = Row(f"a worker gets {how.name}")
        for _ in range(times):
            words = command("refine", "--workers", "2", "--json", "-", LARGER, WRONG, JOB, LARGER)
            started = time.monotonic()
            process = start(words)
            while len(below := descendants(process.pid)) < 3 and process.poll() is None:  # two servers, and a worker
                time.sleep(0.02)
            time.sleep(rng.uniform(0, 0.3))
            below = descendants(process.pid)
            if below:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(rng.choice(below), how)
            done = finish(process, f"{how.name}: {' '.join(words[1:])}", started)
            row.note(done, [1, 5])
            try:
                jobs = json.loads(done.out)["jobs"]
            except ValueError:
                jobs = []
            if len(jobs) != 4:
                row.wrong.append(f"{len(jobs)} of 4 jobs told: {done.out[-500:]}{done.error[-500:]}")
        yield row


def descendants(pid: int) -> list[int]:
    """The processes that a process started, and those that they started."""
    found: list[int] = []
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except (OSError, ValueError, IndexError):
                continue
    waiting = [pid]
    while waiting:
        one = waiting.pop()
        below = [child for child, parent in parents.items() if parent == one]
        found += below
        waiting += below
    return found


KINDS: dict[str, Callable[[random.Random, int], Iterator[Row]]] = {
    "streams": streams, "folder": deleted_folder, "memory": memory, "descriptors": descriptors, "disk": full_disk,
    "tmpfs": full_file_system,
    "interruptions": interruptions, "workers": killed_workers,
}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--times", type=int, default=20, help="runs of each fault whose time or size is random")
    parser.add_argument("kinds", nargs="*", metavar="KIND", help=", ".join(KINDS))
    options = parser.parse_args()
    wrong: list[str] = []
    print(f"{'fault':50} {'runs':>5} {'slowest':>8}   exit code: runs")
    for kind in options.kinds or KINDS:
        for row in KINDS[kind](random.Random(options.seed), options.times):
            exits = ", ".join(f"{code}: {count}" for code, count in sorted(row.exits.items()))
            print(f"{row.fault:50} {row.exits.total():5} {row.slowest:6.1f} s   {exits}", flush=True)
            wrong += [f"{row.fault}: {text}" for text in row.wrong]
    print(f"{len(wrong)} wrong")
    for text in wrong[:20]:
        print(f"==== {text}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
