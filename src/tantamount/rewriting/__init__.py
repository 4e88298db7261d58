"""Rules that users give (lemmas): what is known of each, where they occur, and programs rewritten by them.

    trials    a rule executed on random inputs
    evidence  a rule proved, tested, refuted or rejected
    match     occurrences of a rule's left side in a program
    apply     a program with the right side in the place of occurrences, where that is sound
    settle    a verdict with the help of rules, where there is none without

May import what ``refinement`` may, ``refinement`` and ``capture``.
"""
