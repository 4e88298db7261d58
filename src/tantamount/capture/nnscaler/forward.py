"""The training step around a module that has none: modules that ``nnscaler.parallelize`` makes without ``use_end2end``
have a ``forward`` that calls their one segment, and the training loop does the rest.

What it does is taken to be the usual: gradients cleared, one forward pass, the backward pass of the first result, and
the reducers, which nnScaler's optimizer calls before its step. It is written down as the step of other modules is.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping

from tantamount.capture.nnscaler.statements import (
    Call,
    Dotted,
    Function,
    Name,
    Statement,
    Value,
    refused,
    statements_of,
)

__all__ = ["step_around"]

_EXECUTOR = "nnscaler.runtime.executor."
_REDUCER = "reducer"


def step_around(
    methods: Mapping[str, ast.FunctionDef], path: str, lines: list[str]
) -> tuple[Function, tuple[str, ...]]:
    """The step, and the names of the arguments that the forward pass uses. Raises :class:`UserError` for a
    ``_forward_impl`` that does anything but call a segment with its arguments and return what that returns."""
    method = methods["_forward_impl"]
    line, text = method.lineno, lines[method.lineno - 1].strip()
    if method.args.vararg or method.args.kwarg or method.args.kwonlyargs or method.args.posonlyargs:
        raise refused(path, line, text, "a step (use_end2end=True), or a forward pass with arguments that are named")
    body = [node for node in method.body if not _is_check(node)]
    called, returned = statements_of(body, path, lines) if len(body) == 2 else (None, None)
    if called is None or returned is None or not isinstance(called.value, Call) or not returned.returns:
        raise refused(path, line, text, "a step (use_end2end=True), or a forward pass that calls one segment")
    segment = called.value.function.removeprefix("self.")
    given = {argument.arg for argument in method.args.args[1:]}
    used = tuple(x.name for x in called.value.args if isinstance(x, Name))
    results = returned.value if isinstance(returned.value, tuple) else (returned.value,)
    plain = len(used) == len(called.value.args) and not called.value.kwargs and len(set(used)) == len(used)
    if segment not in methods or not plain or not given >= set(used) or not called.targets:
        raise refused(path, called.line, called.text, "a segment, called with arguments of the forward pass")
    if not set(results) <= {Name(x) for x in called.targets}:
        raise refused(path, returned.line, returned.text, "results of the segment")

    def call(
        targets: tuple[str, ...], function: str, *args: Value, several: bool = False, **kwargs: Value
    ) -> Statement:
        return Statement(targets, Call(function, args, kwargs), called.line, called.text, unpacked=several)

    loss = results[0]
    made = Dotted(f"model.{segment}")
    steps = [
        call((), "model.zero_grad"),
        call(used, "next", Name("dataloader"), several=len(used) > 1),
        call(
            called.targets, f"{_EXECUTOR}fexecute", segment, made, *map(Name, used), several=called.unpacked,
            requires_grad=True,
        ),
        call((), f"{_EXECUTOR}backward", segment, (), (loss,), (None,)),
        *(
            call((), f"{_EXECUTOR}aexecute", Dotted(f"model.{name}"), requires_grad=False)
            for name in methods
            if name.rstrip("0123456789") == _REDUCER
        ),
        returned,
    ]  # fmt: skip
    return Function("_train_step", ("model", "dataloader"), tuple(steps)), used


def _is_check(node: ast.stmt) -> bool:
    """``if NAME is not None: raise ...`` of an argument that is not used."""
    return (
        isinstance(node, ast.If)
        and isinstance(node.test, ast.Compare)
        and isinstance(node.test.left, ast.Name)
        and not node.orelse
        and len(node.body) == 1
        and isinstance(node.body[0], ast.Raise)
    )
