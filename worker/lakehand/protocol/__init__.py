"""Recipes over ports: each file is the only place that orders its writes."""
