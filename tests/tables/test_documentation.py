"""Every operator documents itself, and ``docs/operators.md`` is what the table generates."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from support.several import case, grouped
from tantamount.explanations.operators import operator_topic
from tantamount.ops.definitions import FAMILIES
from tantamount.ops.documentation import mathematics, schema, support_table
from tantamount.ops.table import Operator, table

ROOT = Path(__file__).resolve().parents[2]
ROWS = list({id(row): row for row in table().values()}.values())


BY_CATEGORY = grouped(ROWS, lambda row: row.category)


@pytest.mark.parametrize("category", BY_CATEGORY)
def test_every_operator_states_its_mathematics_on_one_line_and_shows_its_definition(category: str) -> None:
    for row in BY_CATEGORY[category]:
        with case(row.name):
            check_documentation(row)


def check_documentation(row: Operator) -> None:
    """Raises AssertionError where an operator is not documented as all are."""
    first, _, rest = row.doc.partition("\n")
    assert first
    assert not first.endswith(".")
    assert not rest or rest.startswith("\n")
    assert row.category in FAMILIES
    sections = operator_topic(row).sections
    value, attributes, *_ = sections
    assert value.code == mathematics(row)
    assert [name for name, *_ in attributes.rows[1:]] == list(row.parameters)
    found = [section for section in sections if section.heading == "Definition"]
    assert found or row.opaque
    for section in found:
        assert re.search(rf"(def {inspect.unwrap(row.define).__name__}\(|lambda )", section.code)


def test_schema() -> None:
    assert schema(table()["aten.baddbmm.default"]) == "(self, batch1, batch2, *, beta=1, alpha=1)"
    assert schema(table()["aten.add.Tensor"]) == "(self, other, alpha=1)"


def test_in_place_variants_share_a_row() -> None:
    text = support_table(table())
    assert text.count("`mul.Tensor`<br>`mul.Scalar`<br>`mul_.Tensor`<br>`mul_.Scalar`") == 1
    assert all(f"`{name.removeprefix('aten.')}`" in text for name in table() if name.startswith("aten."))


def test_the_table_in_the_documentation_is_up_to_date() -> None:
    written = (ROOT / "docs" / "operators.md").read_text(encoding="utf-8")
    assert written == support_table(table()), "run: python -m tantamount.ops.documentation docs/operators.md README.md"
