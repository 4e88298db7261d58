"""Training plans: whether a whole iteration, spread over ranks, stages and microbatches, is what one device would do.

``parts`` is what a plan is, ``read`` reads it, ``wiring`` compares what parts hold where they meet, ``prove`` gives the
verdict on one part and ``verify`` on the plan, ``result`` is the answer, ``show`` prints a plan.

Of schedules, ``actions`` are the words, ``named`` those that have names, ``tables`` those of PyTorch, ``exchange`` adds
the messages that computations need, ``check`` finds what is wrong with one, ``timing`` what it costs and ``timeline``
draws it. How a part is refuted is handed in: this package does not import ``refinement``, nor that this one.
"""
