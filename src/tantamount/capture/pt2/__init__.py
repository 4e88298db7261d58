"""Programs that ``torch.export.save`` wrote (``.pt2``), read without PyTorch: ``zipfile`` and ``json``, nothing that a
file could have executed. May import what a reader may (``ir``, ``ops``, ``semantics``) and ``capture``."""

from tantamount.capture.pt2.program import parse_pt2, read_pt2

__all__ = ["parse_pt2", "read_pt2"]
