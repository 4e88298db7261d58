"""The report as one self-contained page, for a browser without a network.

``page`` fills the template; ``scene`` is what the page draws, as plain data; ``groups`` makes modules of graphs;
``marks`` finds where two formulas differ. ``static`` has what is copied into every page: our scripts and style, and
dagre (layout). What comes from graphs is untrusted: it is escaped as text, or is JSON that scripts show as text only.
"""
