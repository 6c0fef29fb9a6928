"""Avro's binary encoding, a column at a time: the parts behind the ``avro_*`` modules."""
