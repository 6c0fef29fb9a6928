"""What a table's lock is called where it does not lie in the table: in Kubernetes and in etcd.

All workers of a table must arrive at the same name, and two tables must not share one: so it is
made of the URI that the table's store gives itself (one spelling for each place), and of all of it.
"""

from __future__ import annotations

import hashlib
import re

_LONGEST_FOLDER = 32
_DIGEST = 16


def lock_name(store_uri: str) -> str:
    """Return the name of the lock for the table whose ``Store.uri`` this is: a DNS-1123 label."""
    folder = re.sub(r"[^a-z0-9]+", "-", store_uri.rpartition("/")[2].lower())
    readable = folder[:_LONGEST_FOLDER].strip("-")
    digest = hashlib.sha256(store_uri.encode()).hexdigest()[:_DIGEST]
    return "-".join(part for part in ("lakehand", readable, digest) if part)
