"""Room for the metadata table's HFile format, which nothing reads or writes yet."""
