"""Every known check of the libraries is a rule, a data row, or left out for a reason.

tests/cases/coverage.json.gz says which, by family; the codes that it names exist. Where the collected checks lie
beside the project, none of them may be missing.
"""

import json
import os
import re
from pathlib import Path

import pytest

import packed
from distributed_training_backends.rules import catalog
from distributed_training_backends.rules.registry import FAMILIES, RULES

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("DTB_SHARED", ROOT.parent / "shared"))
COVERAGE: dict[str, dict[str, str]] = json.loads(packed.unpacked(ROOT / "tests" / "cases" / "coverage.json.gz"))
_CODE = re.compile(rf"\b(?:{'|'.join(FAMILIES)})\d{{3}}\b")


def covered() -> dict[str, str]:
	return {check: text for listed in COVERAGE.values() for check, text in listed.items()}


def test_codes_exist_and_reasons_are_given() -> None:
	catalog.load()
	for check, text in covered().items():
		named = set(_CODE.findall(text))
		assert named <= set(RULES), check
		assert named or len(text) > 20, f"{check}: a reason is needed"


def test_every_row_of_the_checks_is_covered() -> None:
	assert {*numbered("FS", 26), "CNV1"} == set(COVERAGE["fsdp"])
	rest = {"TPU1", "TPU2", "CP01", "CP02", "SP01"}
	assert {*numbered("PC", 18), *numbered("MG", 5), *rest} == set(COVERAGE["parallelism"])


def numbered(letters: str, last: int) -> list[str]:
	return [f"{letters}{number:02d}" for number in range(1, last + 1)]


@pytest.mark.skipif(not (SHARED / "facts").is_dir(), reason="no collection of checks beside the project")
@pytest.mark.parametrize("name", ["accelerate_checks.json", "deepspeed_checks.json"])
def test_no_check_is_forgotten(name: str) -> None:
	checks = json.loads((SHARED / "facts" / name).read_text(encoding="utf-8"))
	missing = sorted({check["id"] for check in checks} - set(covered()))
	assert missing == []
