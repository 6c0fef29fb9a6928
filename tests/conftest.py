"""What every test may lean on."""

import os
import time

# Table timelines may speak the writer's local time; tests do not depend on the machine's.
os.environ["TZ"] = "UTC"
time.tzset()
