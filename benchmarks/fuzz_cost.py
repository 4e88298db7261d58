"""What a case costs: CPU milliseconds of its parts, and of a backend that compiles and runs it.

    python benchmarks/fuzz_cost.py [--cases 200] [--repeat 3] [--backend ort --python PATH]

The same cases are made ``--repeat`` times, and the least time of each part is told: other processes only add. With a
backend, programs are run on it as a campaign does (the original, the simplest and the most complex form, at the default
level), and the time of its process is told beside this one's.
"""

from __future__ import annotations

import argparse
import gc
import resource
import time
from collections.abc import Callable
from random import Random
from typing import Any

from tantamount.fuzz import cases as made
from tantamount.fuzz.backends import backends
from tantamount.fuzz.backends.base import policy_of
from tantamount.fuzz.campaign import started
from tantamount.fuzz.cases import Case, Maker
from tantamount.fuzz.draft import Policy
from tantamount.fuzz.oracle import judge
from tantamount.fuzz.steering import Coverage
from tantamount.rules.record import proved_rules

PARTS = {
    "generate": "generation", "saturated": "rewriting", "simplest": "extraction", "most_complex": "extraction",
    "random_form": "extraction", "as_graph": "extraction",
}  # fmt: skip


def timed(spent: dict[str, float], part: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, whose CPU time is added to a part's."""

    def run(*args: Any, **kwargs: Any) -> Any:
        start = time.process_time()
        try:
            return function(*args, **kwargs)
        finally:
            spent[part] = spent.get(part, 0.0) + time.process_time() - start

    return run


def once(maker: Maker, seed: int, count: int, spent: dict[str, float]) -> list[Case]:
    """The cases of a seed, steered as in a campaign without kernels."""
    coverage, found, start = Coverage(), [], time.process_time()
    goals_of, add = timed(spent, "steering", coverage.goals), timed(spent, "steering", coverage.add)
    for index in range(count):
        goals = goals_of(maker.policy, Random(f"{seed}/{index}/goals"))
        found.append(maker.case(seed, index, goals))
        add([form.graph for form in found[-1].forms], (), goals)
    spent["all"] = time.process_time() - start
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--cases", type=int, default=200)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--forms", type=int, default=1, help="random forms of a case")
    parser.add_argument("--backend", default="")
    parser.add_argument("--python", default="")
    options = parser.parse_args()
    policy = policy_of([backends()[options.backend]]) if options.backend else Policy()
    maker = Maker(policy, proved_rules(), options.forms)
    gc.set_threshold(200_000, 20, 20)  # as the command does
    for index in range(30):  # what is found once a process
        maker.case(options.seed + 1, index)
    spent: dict[str, float] = {}
    for name, part in PARTS.items():
        setattr(made, name, timed(spent, part, getattr(made, name)))
    least: dict[str, float] = {}
    found: list[Case] = []
    for _ in range(options.repeat):
        spent.clear()
        found = once(maker, options.seed, options.cases, spent)
        for part, seconds in spent.items():
            least[part] = min(seconds, least.get(part, seconds))
    each = {part: 1000 * seconds / options.cases for part, seconds in least.items()}
    three = sum(each[part] for part in ("generation", "rewriting", "extraction"))
    calls = sum(node.op == "call" for case in found for node in case.forms[0].graph.nodes) / options.cases
    forms = sum(len(case.forms) for case in found) / options.cases
    print(f"{options.cases} cases of {calls:.1f} calls and {forms:.1f} forms")
    for part, value in each.items():
        print(f"  {part:12s} {value:6.2f} ms")
    print(f"  generation, rewriting and extraction together {three:.2f} ms")
    if options.backend:
        empty = compiled(options.backend, options.python, found[:1])
        whole = compiled(options.backend, options.python, found)
        programs, here, there, wall = (b - a for a, b in zip(empty, whole, strict=True))
        count = len(found) - 1
        print(f"{programs} programs on {options.backend}: {1000 * here / count:.1f} ms CPU a case here,")
        print(f"  {1000 * there / count:.1f} in its process; {1000 * wall / count:.1f} ms of wall time")


def compiled(name: str, python: str, cases: list[Case]) -> tuple[float, ...]:
    """The programs that three forms of each case are, the CPU seconds here and in the backend's process, and the wall
    time, with its start."""
    compiler = started(name, python)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    here, start = time.process_time(), time.perf_counter()
    programs = 0
    for case in cases:
        forms = [form for form in case.forms if not form.name.startswith("random")]
        programs += len(forms)
        judge(case, {form.name: compiler.run(form.graph, form.inputs) for form in forms}, compiler.backend)
    here, wall = time.process_time() - here, time.perf_counter() - start
    compiler.close()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    there = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return programs, here, there, wall


if __name__ == "__main__":
    main()
