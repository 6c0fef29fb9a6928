"""Where the work of a write or a query is done: on Spark's executors, or in this process."""
