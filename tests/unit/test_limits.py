"""Named limits: checked, told, raised."""

from __future__ import annotations

import pytest

from tantamount.errors import UserError
from tantamount.limits import Limits, limits_from_environment


def test_within_the_limit() -> None:
    Limits(nodes=3).check("nodes", 3, "g.json", "nodes")


def test_beyond_the_limit_names_limit_and_variable() -> None:
    with pytest.raises(UserError) as caught:
        Limits(string_length=3).check("string_length", 4, "g.json: node a", "characters")
    error = caught.value
    assert (error.code, error.place, error.found) == ("limit-string-length", "g.json: node a", "4 characters")
    assert error.needed == "at most 3 (limit string_length)"
    assert "TANTAMOUNT_LIMIT_STRING_LENGTH=" in error.hint


def test_environment() -> None:
    limits = limits_from_environment({"TANTAMOUNT_LIMIT_NODES": "7", "HOME": "/", "TANTAMOUNT_SHARED": "x"})
    assert limits == Limits(nodes=7)


@pytest.mark.parametrize(
    ("variable", "value", "code"),
    [
        ("TANTAMOUNT_LIMIT_NODE", "7", "limit-unknown"),
        ("TANTAMOUNT_LIMIT_NODES", "-1", "limit-value"),
        ("TANTAMOUNT_LIMIT_NODES", "many", "limit-value"),
        ("TANTAMOUNT_LIMIT_NODES", "", "limit-value"),
        ("TANTAMOUNT_LIMIT_NODES", "9" * 5000, "limit-value"),
    ],
)
def test_bad_environment(variable: str, value: str, code: str) -> None:
    with pytest.raises(UserError) as caught:
        limits_from_environment({variable: value})
    assert caught.value.code == code
    assert variable in caught.value.place
