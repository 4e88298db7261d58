"""Graphs, types, meshes and relations: plain immutable data.

May import: ``errors``, ``limits``. Everything else may import this layer.
"""
