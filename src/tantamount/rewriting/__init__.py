"""Rules that users give (lemmas): what is known of each, where they occur, and programs rewritten by them.

    trials    a rule executed on random inputs
    solved    what z3 says of a rule
    evidence  a rule proved, tested, refuted or rejected
    match     occurrences of a rule's left side in a program
    apply     a program with the right side in the place of occurrences, where that is sound
    settle    a verdict with the help of rules, where there is none without
    pieces    what computes tensors that agree in values and are not proved to be equal
    written   two graphs as the text of a rule
    candidates  the rules that a comparison lacks

May import what ``refinement`` may, ``refinement``, ``capture`` and ``smt``.
"""
