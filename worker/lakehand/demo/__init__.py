"""``python -m lakehand.demo``: a small lake, writers that collide, one that is killed, right rows.

``story`` tells it step by step; ``orders`` knows what the rows must be, without looking at the
table; ``writers`` are processes of their own; ``readers`` are the three that must agree.
"""
