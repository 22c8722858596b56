"""The project's own validator over what is emitted: a setup whose config is not clean is out, and this says why."""

from collections.abc import Iterator

from .. import validate
from ..model import Finding, Severity
from ..sources.load import read
from .compatibility import Obstacle
from .emit_accelerate import DEEPSPEED_FILE, accelerate_yaml
from .emit_deepspeed import deepspeed_json
from .emit_launch import CONFIG
from .facts import Facts
from .setup import Setup


def flaw(facts: Facts, setup: Setup) -> Obstacle | None:
	"""The first error or warning that the validator has about the files of a setup."""
	for finding in findings(facts, setup):
		if finding.severity is not Severity.INFO:
			return Obstacle(finding.code, finding.message, finding.reference)
	return None


def findings(facts: Facts, setup: Setup) -> Iterator[Finding]:
	config = read(CONFIG, accelerate_yaml(facts, setup), "accelerate", "yaml")
	text = deepspeed_json(facts, setup)
	companion = None if text is None else read(DEEPSPEED_FILE, text, "deepspeed", "json")
	for report in validate.judge([validate.Unit(config, companion)], validate.Options(facts.versions)):
		yield from report.findings
