"""Training iterations of modules that users have, part by part: which modules are alike, what one device and the ranks
do with one of them, and the plan that is made of it. What is common to all frameworks that plans are made from.
"""
