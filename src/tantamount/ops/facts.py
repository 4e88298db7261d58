"""Facts of an operator, or of one call of it, that follow from its definition: plain data, which ``ops.derive`` finds.

Facts speak of real arithmetic, as proofs do. A fact that is not claimed is not denied: it may hold and not be found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

__all__ = ["NOTHING", "Facts", "told"]

CHOOSING = frozenset({"slice", "stride", "flip", "stack", "concat", "gather", "scatter", "diagonal", "choose"})
REARRANGING = frozenset({"squeeze", "reshape", "permute", "expand"})
PLACING = frozenset({"concat", "gather", "scatter"})


@dataclass(frozen=True)
class Facts:
    """Operands are named as the parameters that they are given for; those of a list share its name.

    ``linear``         the largest sets of operands in which all results are jointly linear, the others fixed: of
                       ``add`` {self, other}; of ``mm`` {self} and {mat2}; of ``addmm`` {self, mat1} and {self, mat2}
    ``combination``    where the result is, element by element, a sum of multiples of operands: the factors; the one of
                       ``""`` is a number that is added
    ``moved``          where every element of a result is an element of an operand or a constant, and which one does
                       not depend on the values of elements that are moved: the operands that they are elements of
    ``moves``          the ways in which elements are moved on the way to a result, computed with or not: ``squeeze``
                       (sizes of 1 put in or taken out), ``reshape``, ``permute``, ``expand``, ``slice``, ``stride``,
                       ``flip``, ``diagonal``, ``stack``, ``concat``, ``gather``, ``scatter``, ``choose`` (by a
                       condition)
    ``piece``          every result is one block of one operand, and not all of it
    ``view``           the result has all elements of one operand, in any order, each once or repeated, and no others
    ``elementwise``    an element of the result depends on the elements of the operands at its own place only, by the
                       same function everywhere; shapes are broadcast
    ``factory``        no result depends on the value of any operand
    ``random``         what it gives, nothing decides: random numbers, masks of dropout, memory that is not written
    ``reduction``      ``sum``, ``mean``, ``max``, ``min`` or ``norm``, of elements or of something made of them, up to
                       a factor
    ``monotone``       by operand, where results never decrease (1) or never increase (-1) as any of its elements grows
    ``idempotent``     applied to its own result, the other operands the same, it gives that result again
    ``commutative``    two operands that can be exchanged for each other
    ``collective``     of a collective: ``message``, the reduction over ranks, ``exchange``, which moves elements, or
                       another ``computation``
    ``comparison``     of the first operand with the second or with a number: ``below``, ``at most``, ``above``,
                       ``at least``, ``equal``, ``unequal``
    ``exponent``       the result is this power of the one operand, element by element
    """

    linear: tuple[frozenset[str], ...] = ()
    combination: Mapping[str, Fraction] = field(default_factory=dict[str, Fraction])
    moved: frozenset[str] = frozenset()
    moves: frozenset[str] = frozenset()
    piece: bool = False
    view: bool = False
    elementwise: bool = False
    factory: bool = False
    random: bool = False
    reduction: str = ""
    monotone: Mapping[str, int] = field(default_factory=dict[str, int])
    idempotent: bool = False
    commutative: bool = False
    collective: str = ""
    comparison: str = ""
    exponent: Fraction | None = None

    @property
    def layout(self) -> bool:
        """True where elements are moved only: nothing is computed with them."""
        return bool(self.moved)

    @property
    def scale(self) -> Fraction | None:
        """The number by which the one operand is multiplied, element by element; ``None`` where it is not."""
        factors = [factor for name, factor in self.combination.items() if name]
        return factors[0] if len(factors) == 1 == len(self.combination) else None

    @property
    def adds(self) -> bool:
        """True where the result is, element by element, a sum of several multiples of operands or of numbers."""
        return len(self.combination) > 1

    @property
    def sums(self) -> bool:
        """True where the result is a sum of contributions of several operands, elements or ranks, one by one: an
        addition, a bias that is added to a product, a reduction by sum or mean; not the sum inside a product."""
        several = any(len(names) > 1 for names in self.linear) and not self.layout
        return self.adds or several or self.reduction in ("sum", "mean")

    @property
    def chooses(self) -> bool:
        """True where the operator moves elements only, and which ones, or where to, is its choice."""
        return self.layout and bool(self.moves & CHOOSING)

    @property
    def places(self) -> bool:
        """True where elements are read or written at positions: joins, indexing, scattering."""
        return bool(self.moves & PLACING)

    def called(self, names: Mapping[str, str]) -> Facts:
        """The facts with other names of operands; those that ``names`` does not have stay."""
        linear = tuple(frozenset(names.get(name, name) for name in some) for some in self.linear)
        combination = {names.get(name, name): factor for name, factor in self.combination.items()}
        moved = frozenset(names.get(name, name) for name in self.moved)
        monotone = {names.get(name, name): way for name, way in self.monotone.items()}
        return replace(self, linear=linear, combination=combination, moved=moved, monotone=monotone)


NOTHING = Facts()


def told(facts: Facts) -> list[str]:
    """The facts in words, one clause each, for people."""
    found: list[str] = []
    if facts.collective:
        found.append(f"collective: {facts.collective}")
    if facts.factory:
        found.append("factory")
    if facts.random:
        found.append("random")
    if facts.piece:
        found.append("piece")
    elif facts.view:
        found.append("view")
    elif facts.layout:
        found.append("layout")
    if facts.elementwise and not facts.factory:
        found.append("elementwise")
    if facts.linear:
        found.append("linear in " + " or ".join(" and ".join(sorted(names)) for names in facts.linear))
    if facts.scale is not None and facts.scale != 1:
        found.append("scale")
    if facts.reduction and not facts.collective:
        found.append(f"reduction: {facts.reduction}")
    for sign, word in ((1, "grows with"), (-1, "falls with")):
        names = sorted(name for name, one in facts.monotone.items() if one == sign)
        if names and not facts.layout:
            found.append(f"{word} {', '.join(names)}")
    if facts.idempotent:
        found.append("idempotent")
    if facts.commutative:
        found.append("commutative")
    return found
