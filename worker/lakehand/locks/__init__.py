"""Adapters of the ``LockProvider`` port."""
