"""Hudi's formats: bytes to values and values to bytes, without any storage."""
