"""The `lakehand` command."""
