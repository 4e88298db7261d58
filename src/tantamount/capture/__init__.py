"""Readers: files of several formats become ``ir`` graphs and jobs. All input is untrusted.

May import: ``errors``, ``limits``, ``ir``, ``ops``. Only ``capture.torch`` may import torch.
"""
