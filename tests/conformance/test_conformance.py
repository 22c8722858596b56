"""The official conformance suite, in both revisions of the protocol, and the scenarios of SEP-2640.

Set DTB_NODE=1 to run; it needs Node, which tests/conformance/node.py installs.
"""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from tests import gated
from tests.conformance import node
from tests.conformance.running import serving

BASELINE = Path(__file__).with_name("baseline.yml")
REVISIONS = ("2025-11-25", "2026-07-28")
# A check that cannot be made counts as passed for the suite, so what has to be made is counted here.
LEAST = {
	"2025-11-25": {
		"server-initialize": 2,
		"ping": 2,
		"completion-complete": 2,
		"tools-list": 3,
		"resources-list": 2,
		"prompts-list": 2,
		"dns-rebinding-protection": 2,
	},
	"2026-07-28": {
		"completion-complete": 2,
		"tools-list": 4,
		"resources-list": 2,
		"prompts-list": 2,
		"dns-rebinding-protection": 2,
		"sep-2164-resource-not-found": 4,
		"caching": 8,
		"http-header-validation": 14,
		"server-stateless": 23,
	},
}
SKILLS = {"enumeration": 32, "manifest": 6, "directory": 7}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
	node.prepare()
	with serving() as found:
		yield f"{found}/mcp"


def suite(address: str, folder: Path, *arguments: str | Path) -> node.Done:
	command = node.program("@modelcontextprotocol/conformance", "conformance")
	return node.run(*command, "server", "--url", address, *arguments, "-o", folder)


def passed(folder: Path) -> Counter[str]:
	"""How many checks of each scenario have succeeded; skipped ones have not."""
	found: Counter[str] = Counter()
	for path in folder.glob("*/checks.json"):
		name = path.parent.name.removeprefix("server-").split("-2026-")[0].split("-2027-")[0]
		checks = json.loads(path.read_text("utf-8"))
		found[name] += sum(check["status"] == "SUCCESS" for check in checks)
	return found


@gated.node
@pytest.mark.parametrize("revision", REVISIONS)
def test_the_suite_passes_but_for_the_baseline(revision: str, address: str, tmp_path: Path) -> None:
	known = yaml.safe_load(BASELINE.read_text("utf-8"))
	baseline = tmp_path / "baseline.yml"
	failing = [name if ":" in name else f"{name}:{name}" for name in (*known["both"], *known[revision])]
	baseline.write_text(yaml.safe_dump({"server": failing}))
	done = suite(address, tmp_path, "--suite", "all", "--spec-version", revision, "--expected-failures", baseline)
	assert done.status == 0, done.out[-3000:]
	counts = passed(tmp_path)
	assert {name: counts[name] for name in LEAST[revision] if counts[name] < LEAST[revision][name]} == {}


@gated.node
@pytest.mark.parametrize("scenario", SKILLS)
def test_skills_over_mcp(scenario: str, address: str, tmp_path: Path) -> None:
	done = suite(address, tmp_path, "--scenario", f"sep-2640-skills-{scenario}")
	assert done.status == 0, done.out[-3000:]
	assert sum(passed(tmp_path).values()) == SKILLS[scenario]


def test_everything_in_the_baseline_has_its_reason() -> None:
	text = BASELINE.read_text("utf-8")
	lines = [line.strip() for line in text.splitlines()[3:]]
	assert all(len(line) > 20 for line in lines if line.startswith("#"))
	assert all(lines[number + 1].startswith("# ") for number, line in enumerate(lines) if line.endswith(":"))
	known = yaml.safe_load(text)
	assert set(known) == {"both", *REVISIONS}
	for revision in REVISIONS:
		listed = [*known["both"], *known[revision]]
		assert len(listed) == len(set(listed))
