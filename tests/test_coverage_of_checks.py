"""Every known check of the libraries is a rule, a data row, or left out for a reason.

tests/cases/coverage-*.json say which; the codes that they name exist. Where the collected checks lie beside the
project, none of them may be missing.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import pytest

from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import FAMILIES, RULES

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("DTB_SHARED", ROOT.parent / "shared"))
FILES = sorted((ROOT / "tests" / "cases").glob("coverage-*.json"))
_CODE = re.compile(rf"\b(?:{'|'.join(FAMILIES)})\d{{3}}\b")


def covered() -> dict[str, str]:
    """What becomes of each check."""
    return {check: text for path in FILES for check, text in json.loads(path.read_text(encoding="utf-8")).items()}


def test_codes_exist_and_reasons_are_given() -> None:
    catalog.load()
    for check, text in covered().items():
        named = set(_CODE.findall(text))
        assert named <= set(RULES), check
        assert named or len(text) > 20, f"{check}: a reason is needed"


@pytest.mark.skipif(not (SHARED / "facts").is_dir(), reason="no collection of checks beside the project")
@pytest.mark.parametrize("name", ["accelerate_checks.json", "deepspeed_checks.json"])
def test_no_check_is_forgotten(name: str) -> None:
    checks = json.loads((SHARED / "facts" / name).read_text(encoding="utf-8"))
    missing = sorted({check["id"] for check in checks} - set(covered()))
    assert missing == []
