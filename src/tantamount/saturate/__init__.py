"""Equality saturation over typed tensor graphs.

    egraph   classes of equal terms with their types; congruence
    rewrite  rules applied to it, some rounds, within limits
    extract  graphs out of it: simplest, most complex, random ones

May import: ``errors``, ``ir``, ``ops``, ``rules``. See docs/design/fuzz.md for why this is not egglog.
"""
