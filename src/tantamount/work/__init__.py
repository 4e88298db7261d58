"""Work in processes of its own, with limits: ``pool`` here, ``cluster`` on a Ray cluster.

For ``refine`` of many jobs, and whatever else has many pieces. Imports nothing of ours.
"""
