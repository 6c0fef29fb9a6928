"""The pure core: what a Hudi table is, without IO, clocks, threads, Spark or Arrow."""
