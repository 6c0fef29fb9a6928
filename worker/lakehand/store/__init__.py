"""Adapters of the ``Store`` port: memory, local disk, S3, GCS, ABFS and HDFS."""
