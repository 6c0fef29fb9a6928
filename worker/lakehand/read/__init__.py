"""Reading tables as streams of Arrow batches, without a JVM."""
