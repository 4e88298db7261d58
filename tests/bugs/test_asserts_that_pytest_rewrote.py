"""A captured function with an assertion, in a test of its user's: pytest rewrites assertions into calls of a module of
its own, which leads to its session, with all tests and all that they hold. That was taken for state of the program, and
looked at before and after the call: a capture took seconds in a large suite."""

import pytest

torch = pytest.importorskip("torch")

from tantamount.capture.torch.python_state import reachable  # noqa: E402

SCALE = [2.0]


def scaled(x: torch.Tensor) -> torch.Tensor:
    y = SCALE[0] * x
    assert y.shape == x.shape, "as it was"
    return y


def test_what_pytest_put_there_is_no_state_of_the_program() -> None:
    assert any(name.startswith("@") for name in scaled.__code__.co_names), "assertions are rewritten"
    assert [name for name, _ in reachable([("", scaled)])] == ["", "SCALE"]
