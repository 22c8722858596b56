"""What the rules say of a content: a text, or data that stand in a JSON file."""

import json
from typing import Any

from distributed_training_backends.api import default_targets, validate_text
from distributed_training_backends.model import Context, Finding, Kind
from distributed_training_backends.validate import Options


def judged(
	content: Any,
	kind: Kind | None = "accelerate",
	path: str = "",
	files: Any = None,
	known: Any = None,
	**targets: str | None,
) -> list[Finding]:
	"""The findings about a content and the files that it names, for these releases; no release is the newest."""
	text = content if isinstance(content, str) else json.dumps(content)
	options = Options(
		default_targets()._replace(**{name: release for name, release in targets.items() if release}),
		Context(**known or {}),
		kind,
	)
	path = path or ("config.yaml" if text is content else "config.json")
	return [finding for file in validate_text(text, options, path, files or {}).files for finding in file.findings]


def codes(content: Any, severity: str = "error", **how: Any) -> set[str]:
	return {item.code for item in judged(content, **how) if item.severity.value == severity}
