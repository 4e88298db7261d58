"""Hints that were followed: whether the job is proved with each is asked once."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tantamount.diagnosis.hints import Hint, proved_with
from tantamount.diagnosis.naming import Account
from tantamount.diagnosis.search import Repair
from tantamount.proof import Proof

__all__ = ["Followed", "once"]


def once(tell: Callable[[Repair], Account]) -> Callable[[Repair], Account]:
    """The same function, which is asked once for each change."""
    known: dict[int, tuple[Repair, Account]] = {}  # by identity of the change, which stays while its repair is kept

    def told(repair: Repair) -> Account:
        if id(repair.edit) not in known:
            known[id(repair.edit)] = repair, tell(repair)
        return known[id(repair.edit)][1]

    return told


class Followed:
    """The hints that were followed so far, and whether the job is proved with each: that is asked once."""

    def __init__(
        self,
        proof: Proof,
        seconds: float,
        refuted: Sequence[str],
        tell: Callable[[Repair], Account],
        proves: Callable[[Hint], bool] | None,
    ) -> None:
        self.proof, self.refuted, self.tell, self.of_whole = proof, refuted, tell, proves
        self.until = time.process_time() + 2 * seconds  # looking for a repair takes half of it at most
        self.known: dict[object, bool] = {}

    def left(self) -> float:
        """The CPU seconds that following a hint, or comparing forms, may take. All that comes after looking for a
        repair may take what is left of twice as much as that, and each a little whatever there was before it."""
        return max(self.until - time.process_time(), self.proof.options.effort.bounds.doubtful_seconds)

    def of_all(self, repair: Repair) -> bool:
        """True if the job is proved with the hint of a change, all that is refuted of it."""
        if repair.of_input:  # the relation is another one, perhaps
            return False
        told = self.tell(repair)
        if not (told.sure and told.hint) or told.hint.proved:
            return False
        return set(self._touched(repair, told.hint)) >= set(self.refuted) and self.proves(repair, told.hint)

    def proves(self, repair: Repair, hint: Hint) -> bool:
        """True if the job is proved with a hint, as far as it depends on it."""
        key = (hint.text, repair.edit.places)
        if key not in self.known:
            job, touched = self.proof.job, self._touched(repair, hint)
            self.known[key] = (
                self.of_whole(hint) if self.of_whole else proved_with(job, hint, self.proof, touched, self.left())
            )
        return self.known[key]

    def _touched(self, repair: Repair, hint: Hint) -> list[str]:
        """The outputs that depend on what a hint changes."""
        replay = repair.matches.replay
        lines = hint.lines or {}
        received = (other for place in lines for other in replay.messages.together.get(place, ()))
        below = replay.below([*lines, *received])  # what is sent is read where it is received
        return [name for name in self.proof.job.outputs if not below.isdisjoint(replay.output_places(name))]
