"""What every test may lean on."""

import os
import time

from hypothesis import settings

# Table timelines may speak the writer's local time; tests do not depend on the machine's.
os.environ["TZ"] = "UTC"
time.tzset()

# A test that takes long on a busy machine is not wrong; one that hangs meets pytest's timeout.
settings.register_profile("lakehand", deadline=None)
settings.load_profile("lakehand")
