"""Where two formulas differ."""

from __future__ import annotations

from tantamount.report.html.marks import marks


def test_what_differs_is_marked_on_both_sides() -> None:
    left, right = marks("sum[a<1024](x[a])", "sum[a<512](x[512tp+a])")
    assert [piece for piece, differs in left if differs] == ["1024"]
    assert "".join(piece for piece, _ in left) == "sum[a<1024](x[a])"
    assert [piece for piece, differs in right if differs] == ["512", "512tp+"]
    assert "".join(piece for piece, _ in right) == "sum[a<512](x[512tp+a])"


def test_equal_texts_have_no_marks() -> None:
    assert marks("b[j]", "b[j]") == ((("b[j]", False),), (("b[j]", False),))


def test_texts_that_have_little_in_common_have_no_marks() -> None:
    assert marks("erf(x[i])", "sum[a<3](w[a, b])") == ((("erf(x[i])", False),), (("sum[a<3](w[a, b])", False),))
    assert marks("", "x") == ((("", False),), (("x", False),))


def test_long_texts_are_not_compared() -> None:
    long = "x " * 5000
    assert marks(long, long + "y") == (((long, False),), ((long + "y", False),))
