"""Families of programs that agree on easy inputs, and their judge: see :mod:`support.attacks.judge`."""
