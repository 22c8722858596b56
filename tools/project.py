"""Where the project is. Tools run as files, and find the project's own code once they have imported this."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "references"
CASES = ROOT / "tests" / "cases"
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tools")]
