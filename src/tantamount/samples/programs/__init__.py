"""Random small programs: ``steps`` has them as data, ``layout`` and ``sums`` the operators that they are made of, and
``growing`` makes them.
"""
