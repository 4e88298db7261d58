"""Backends: the programs that one can express, how they are emitted for it and run, and the differences that are its
policy."""

from __future__ import annotations

import os
import sys
import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import resources
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np

from tantamount.errors import Unsupported
from tantamount.fuzz.draft import ALL_DTYPES, Policy
from tantamount.ir.graph import Graph
from tantamount.ir.types import DType
from tantamount.semantics.reference import Array
from tantamount.semantics.rounding import array_type
from tantamount.work.pool import Lost
from tantamount.work.server import Server

__all__ = ["ENVIRONMENT", "HOSTS", "Backend", "Compiler", "Deviation", "Hosted", "Outcome", "deviations", "policy_of"]


ENVIRONMENT = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", "TF_ENABLE_ONEDNN_OPTS": "1"}
HOSTS = Path(__file__).resolve().parents[1] / "hosts"


@dataclass(frozen=True)
class Outcome:
    """The outcome of a program on a backend. ``status``: ``ok``, ``failed`` (an exception, in ``phase``), ``died`` (the
    process ended), ``overdue`` (it took too long), ``unsupported`` (it cannot be said to this backend). ``outputs`` in
    the order of the graph's, with their element types as the backend has them. ``kernels``: digests of what the
    compiler made of the program, piece by piece, if that was asked for."""

    status: str
    outputs: tuple[Array, ...] = ()
    dtypes: tuple[str, ...] = ()
    phase: str = ""
    message: str = ""
    seconds: float = 0.0
    kernels: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == "ok"


@dataclass(frozen=True)
class Deviation:
    """A difference that the makers of a backend know and keep: a row of its TOML file. What it names is not
    generated, or (``messages``) not reported, while it is ``on``."""

    name: str
    about: str
    link: str = ""
    without_targets: tuple[str, ...] = ()
    without_dtypes: tuple[str, ...] = ()
    integer_limit: int | None = None
    no_wrap: bool = False
    never_wrap: tuple[str, ...] = ()
    no_empty: bool = False
    messages: tuple[str, ...] = ()
    operators: tuple[str, ...] = ()
    on: bool = True


@dataclass(frozen=True)
class Backend:
    """One compiler. ``levels`` from the least to the most optimised, of which the last is the default; ``reference``: a
    level that is no compiler, if there is one. ``install``: the command that installs it; empty for what is part of
    Tantamount. ``passes``: what can be switched off, in the order in which it acts; ``shown``: the share of cases in
    which it is asked what it made of programs. ``options``: what its host is told with every program beside the level
    (``device``, and ``settings`` as ``name=value``); ``environment``: variables of its process; ``megabytes`` of memory
    that the process may have (0: no limit); ``kernels_of``: the backend in whose file the table of its kernels is."""

    name: str
    host: str
    levels: tuple[str, ...]
    emit: Callable[[Graph], str]
    targets: frozenset[str] | None
    install: str
    dtypes: tuple[DType, ...] = ALL_DTYPES
    seconds: float = 30.0
    passes: tuple[str, ...] = ()
    shown: float = 0.0
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    environment: Mapping[str, str] = field(default_factory=lambda: ENVIRONMENT)
    megabytes: int = 16_000
    kernels_of: str = ""

    @property
    def level(self) -> str:
        return self.levels[-1]


class Compiler(Protocol):
    """A backend that is running."""

    @property
    def backend(self) -> Backend: ...

    def run(
        self,
        graph: Graph,
        inputs: Mapping[str, Array],
        level: str = "",
        disabled: Sequence[str] = (),
        show: bool = False,
    ) -> Outcome:
        """Compile and run a program, at a level (default: the most optimised), without some passes. ``show``: ask for
        the kernels, too."""
        ...

    def versions(self) -> dict[str, str]:
        """The versions of what results depend on."""
        ...

    def close(self) -> None:
        """End what was started."""
        ...


def python_for(name: str) -> str:
    """The Python in whose environment a backend is: that of the variable ``TANTAMOUNT_FUZZ_PYTHON_NAME``, or this
    one."""
    return os.environ.get(f"TANTAMOUNT_FUZZ_PYTHON_{name.upper().replace('-', '_')}", sys.executable)


class Hosted:
    """A backend in a process of its own."""

    def __init__(self, backend: Backend, python: str = "") -> None:
        self._backend = backend
        main = HOSTS / "main.py"
        command = [python or python_for(backend.name), str(main), f"host_{backend.host}", str(backend.megabytes)]
        self._server = Server(command, {"PYTHONPATH": "", **backend.environment})

    @property
    def backend(self) -> Backend:
        return self._backend

    def run(
        self,
        graph: Graph,
        inputs: Mapping[str, Array],
        level: str = "",
        disabled: Sequence[str] = (),
        show: bool = False,
    ) -> Outcome:
        """See :class:`Compiler`."""
        try:
            source = self._backend.emit(graph)
        except Unsupported as problem:
            return Outcome("unsupported", message=problem.reason)
        nodes = graph.inputs
        described = [{"name": n.name, "dtype": n.type.dtype.label if n.type else "float32"} for n in nodes]
        arrays = [np.asarray(inputs[n.name], dtype=array_type(n.type.dtype) if n.type else None) for n in nodes]
        options = {
            **self._backend.options, "level": level or self._backend.level, "disabled": list(disabled), "show": show,
        }  # fmt: skip
        found = self._server.ask(
            {"source": source, "options": options, "inputs": described}, arrays, self._backend.seconds
        )
        if isinstance(found, Lost):
            return Outcome("overdue" if found.overdue else "died", message=f"{found}\n{found.so_far or ''}".strip())
        header = found.header
        if header["status"] != "ok":
            return Outcome("failed", phase=header["phase"], message=f"{header['kind']}: {header['message']}")
        return Outcome(
            "ok",
            found.arrays,
            tuple(header["dtypes"]),
            seconds=sum(header["seconds"]),
            kernels=tuple(header["kernels"]),
        )

    def versions(self) -> dict[str, str]:
        """See :class:`Compiler`; empty if the backend does not start."""
        return self.asked()[0]

    def asked(self) -> tuple[dict[str, str], str]:
        """The versions, and the reason why the backend does not start; empty if it does."""
        found = self._server.ask({"ask": "versions", "options": dict(self._backend.options)}, [], 120.0)
        if isinstance(found, Lost):
            return {}, (str(found.so_far or found).strip().splitlines() or [str(found)])[-1]
        if found.header["status"] != "ok":
            return {}, str(found.header["message"])
        return dict(found.header["versions"]), ""

    def close(self) -> None:
        """See :class:`Compiler`."""
        self._server.close()


def _document(name: str) -> dict[str, Any]:
    file = resources.files("tantamount.fuzz.backends").joinpath(f"{name}.toml")
    return tomllib.loads(file.read_text()) if file.is_file() else {}


def deviations(name: str) -> tuple[Deviation, ...]:
    """The declared deviations of a backend."""
    rows: list[dict[str, Any]] = _document(name).get("deviation", [])
    return tuple(Deviation(**{key: _frozen(value) for key, value in row.items()}) for row in rows)


def _frozen(value: Any) -> Any:
    return tuple(cast("list[Any]", value)) if isinstance(value, list) else value


def kernels(name: str) -> Mapping[str, tuple[str, ...]] | None:
    """The element types for which a backend has each operator, as found by probing; ``None`` if that was not done."""
    found = _document(name).get("kernels")
    return None if found is None else {target: tuple(dtypes) for target, dtypes in found.items()}


def policy_of(
    backends: Sequence[Backend], base: Policy | None = None, without: Sequence[str] = (), hidden: Sequence[str] = ()
) -> Policy:
    """The policy of programs that all of some backends can express, with their declared deviations: those that are on,
    but not ``without``, and those named in ``hidden``."""
    policy = base or Policy()
    for backend in backends:
        dtypes = tuple(dtype for dtype in policy.dtypes if dtype in backend.dtypes)
        targets = backend.targets if policy.targets is None else policy.targets & (backend.targets or policy.targets)
        policy = replace(policy, dtypes=dtypes, targets=targets)
        found = kernels(backend.kernels_of or backend.name)
        if found is not None:
            old = policy.kernels
            policy = replace(policy, kernels={
                target: frozenset(row) & (old[target] if old is not None and target in old else frozenset(row))
                for target, row in found.items()
            })  # fmt: skip
        for row in deviations(backend.name):
            if row.name not in without and (row.on or row.name in hidden):
                policy = _deviating(policy, row)
    return policy


def _deviating(policy: Policy, row: Deviation) -> Policy:
    """The policy without what a deviation excludes."""
    targets, limit = policy.targets, policy.integer_limit
    if row.integer_limit is not None:
        limit = min(row.integer_limit, limit or row.integer_limit)
    return replace(
        policy,
        targets=None if targets is None else targets.difference(row.without_targets),
        dtypes=tuple(dtype for dtype in policy.dtypes if dtype.label not in row.without_dtypes),
        integer_limit=limit,
        never_wrap=policy.never_wrap.union(row.never_wrap),
        wrap=policy.wrap and not row.no_wrap,
        empty=policy.empty and not row.no_empty,
    )
