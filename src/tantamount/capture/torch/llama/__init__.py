"""A Llama as training code of our own: on one device, and with tensor parallelism; what plans are made of.

``model`` is the model, ``steps`` are the programs of the parts of a training iteration, ``plan`` captures them at their
real sizes, on tensors without data, and writes the plan.
"""
