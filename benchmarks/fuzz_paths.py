"""Do rewritten forms take other paths through a compiler? The share of cases in which two forms differ in kernels.

    python benchmarks/fuzz_paths.py BACKEND [--cases 50] [--seed 1] [--python PATH]

For each case the simplest and the most complex form, and two forms at random, are compiled, and what the compiler made
of them (kernels or nodes of the optimised graph, names and numbers stripped) is compared. A pair of forms that are the
same program differs nowhere. Without the compiler's doing ``programs`` says in how many cases the two forms differ.
"""

from __future__ import annotations

import argparse
from random import Random

from tantamount.errors import InternalError
from tantamount.fuzz.backends.base import policy_of
from tantamount.fuzz.campaign import started
from tantamount.fuzz.cases import Maker
from tantamount.fuzz.generate import generate
from tantamount.fuzz.steering import Coverage
from tantamount.rules.record import proved_rules
from tantamount.saturate.extract import as_graph, most_complex, random_form, simplest
from tantamount.saturate.rewrite import saturated


def operators(graph) -> list[str]:
    """The operators of a graph, in order."""
    return sorted(f"{node.target} {node.type}" for node in graph.nodes if node.op == "call")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("backend")
    parser.add_argument("--cases", type=int, default=50)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--python", default="")
    options = parser.parse_args()
    compiler = started(options.backend, options.python)
    maker = Maker(policy_of([compiler.backend]), proved_rules())
    coverage = Coverage()
    cases = {"pair": 0, "random": 0}
    programs = dict.fromkeys(cases, 0)
    kernels = dict.fromkeys(cases, 0)
    seen = {"pair": set[str](), "random": set[str]()}
    for index in range(options.cases):
        goals = coverage.goals(maker.policy, Random(f"{options.seed}/{index}/goals"))
        sample = generate(options.seed, index, maker.policy, goals)
        coverage.add([sample.graph], (), goals)
        random = Random(f"{options.seed}/{index}/paths")
        try:
            found = saturated(sample.graph, maker.rules, random, maker.limits, maker.types)
        except InternalError:
            continue
        pairs = {
            "pair": (simplest(found, sample.graph), most_complex(found, sample.graph)),
            "random": (random_form(found, sample.graph, random), random_form(found, sample.graph, random)),
        }
        for name, choices in pairs.items():
            graphs = [as_graph(found, choice, sample.graph) for choice in choices]
            outcomes = [compiler.run(graph, sample.inputs, show=True) for graph in graphs]
            if all(outcome.ok and outcome.kernels for outcome in outcomes):
                cases[name] += 1
                programs[name] += operators(graphs[0]) != operators(graphs[1])
                kernels[name] += outcomes[0].kernels != outcomes[1].kernels
                seen[name].update(*(outcome.kernels for outcome in outcomes))
    print(f"{options.backend} {compiler.versions()}, seed {options.seed}")
    for name in cases:
        share = [f"{100 * count[name] / max(1, cases[name]):.0f}%" for count in (programs, kernels)]
        print(
            f"  {name}: {cases[name]} cases, programs differ {share[0]}, kernels {share[1]}, {len(seen[name])} kernels"
        )
    compiler.close()


if __name__ == "__main__":
    main()
