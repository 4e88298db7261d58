"""Explanations of everything that has a name: error codes, verdicts, differences, assumptions, rules, operators.

Texts are data (TOML, beside this file), read when somebody asks; pages about operators are made from their definitions.
The same topics are what ``tantamount explain`` prints and pages of the documentation. May import: ``errors``,
``limits``, ``ir``, ``ops``.
"""
