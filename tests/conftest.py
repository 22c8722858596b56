"""How the property tests run: DTB_EXAMPLES says how many examples each of them draws."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tools")]

# A time limit for each example would fail on a busy machine, not on a slow program.
settings.register_profile(
    "dtb",
    max_examples=int(os.environ.get("DTB_EXAMPLES", "100")),
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("dtb")
