"""Ingestion: rows in, files of file groups out, each write one instant of the protocol."""
