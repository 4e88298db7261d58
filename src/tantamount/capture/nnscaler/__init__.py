"""Modules that nnScaler generates, one for every rank, read as text. Nothing of them is executed or imported.

May import: ``errors``, ``limits``, ``ir``, and readers of files in ``capture``. What their statements compute is
interpreted by ``capture.torch.nnscaler``; in which order ranks run them is looked at by ``plan.generated``.
"""
