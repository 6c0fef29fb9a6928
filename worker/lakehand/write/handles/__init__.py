"""Write handles: what runs in tasks, and writes the data files of file groups.

``group.write_group`` does one ``GroupTask``; ``bulk.write_partitioned`` makes new file groups of
whatever rows come. Both only stage: the driver decides what is promoted.
"""
