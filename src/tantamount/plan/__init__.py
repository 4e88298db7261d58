"""Training plans: what every device of a pipeline does in one iteration, and whether its data and messages fit.

``actions`` are the words, ``named`` the schedules that have names, ``exchange`` adds the messages that computations
need, ``check`` finds what is wrong with a schedule, ``timing`` what it costs and ``timeline`` draws it. May import:
``errors``, ``limits``.
"""
