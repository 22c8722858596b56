"""The editor schemas are valid, and find the same unknown keys as the key rules: on our examples and on real files."""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
import yaml
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from distributed_training_backends import api
from distributed_training_backends.model import Context, Kind, Targets, json_pointer
from distributed_training_backends.schemas import EXPORTED
from rule_examples import all_cases

ROOT = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("DTB_SHARED", ROOT.parent / "shared"))
KEY_RULES = {
	"accelerate": ("ACC003", "ACC020", "ACC024"),
	"deepspeed": ("DSP004", "DSP005", "DSP006", "DSP007"),
	"fsdp": ("TRN003",),
}
RELEASES = [
	{},
	{"accelerate": "1.6.0", "deepspeed": "0.16.4", "transformers": "4.51.3"},
	{"accelerate": "0.26.1", "deepspeed": "0.12.6", "transformers": "4.40.2"},
]


def targets(changes: dict[str, str]) -> Targets:
	return api.default_targets()._replace(**changes)


def unknown_keys(errors: Iterable[ValidationError]) -> set[str]:
	found: set[str] = set()
	for error in errors:
		if error.validator == "additionalProperties":
			taken: Any = error.schema
			extra = set(cast(Any, error.instance)) - set(taken.get("properties", {}))
			found |= {json_pointer((*error.absolute_path, key)) for key in extra}
		found |= unknown_keys(error.context or ())
	return found


def reported_keys(text: str, kind: Kind, judged: Targets) -> set[str]:
	context = Context(consumer="deepspeed") if kind == "deepspeed" else Context()
	report = api.validate_text(text, api.Options(targets=judged, kind=kind, context=context), path=f"config.{kind}")
	return {item.place.pointer for file in report.files for item in file.findings if item.code in KEY_RULES[kind]}


def parsed(text: str, kind: str) -> Any:
	try:
		return json.loads(text) if kind != "accelerate" else yaml.safe_load(text)
	except (ValueError, yaml.YAMLError):
		return None


def examples(kind: str) -> Iterator[str]:
	for code, cases in all_cases().items():
		for example in cases:
			for name, text in example.files:
				mine = "deepspeed" if code.startswith("DSP") or name.startswith("ds") else "accelerate"
				if mine == kind and code[:3] in ("ACC", "LCH", "FSD", "PAR", "XCF", "DSP"):
					yield text


@pytest.mark.parametrize("kind", EXPORTED)
@pytest.mark.parametrize("changes", RELEASES)
def test_schemas_are_schemas(kind: str, changes: dict[str, str]) -> None:
	made = api.editor_schema(kind, targets(changes))
	Draft202012Validator.check_schema(made)
	assert made["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.parametrize("kind", ["accelerate", "deepspeed"])
@pytest.mark.parametrize("changes", RELEASES)
def test_schemas_agree_with_the_key_rules_on_our_examples(kind: Kind, changes: dict[str, str]) -> None:
	judged = targets(changes)
	validator = Draft202012Validator(api.editor_schema(kind, judged))
	seen = 0
	for text in examples(kind):
		data = parsed(text, kind)
		if (isinstance(data, dict) and "distributed_type" in data) or (kind == "deepspeed" and isinstance(data, dict)):
			assert unknown_keys(validator.iter_errors(data)) == reported_keys(text, kind, judged), text
			seen += 1
	assert seen > 20


@pytest.mark.skipif(not (SHARED / "corpus").is_dir(), reason="no collection of real configs beside the project")
@pytest.mark.parametrize(
	("kind", "folder"), [("accelerate", "accelerate"), ("deepspeed", "deepspeed"), ("fsdp", "fsdp_config")]
)
def test_schemas_agree_with_the_key_rules_on_real_files(kind: Kind, folder: str) -> None:
	validator = Draft202012Validator(api.editor_schema(kind, api.default_targets()))
	differing = {}
	for path in sorted((SHARED / "corpus" / folder).iterdir()):
		text = path.read_text(encoding="utf-8")
		data = parsed(text, kind)
		if isinstance(data, dict):
			reported = reported_keys(text, kind, api.default_targets())
			if kind == "fsdp":  # the rule also reports keys that are read for the other version of FSDP only
				reported -= {f"/{key}" for key in api.editor_schema(kind, api.default_targets())["properties"]}
			difference = unknown_keys(validator.iter_errors(data)) ^ reported
			if difference:
				differing[path.name] = difference
	assert differing == {}


def test_schema_describes_options_and_defaults() -> None:
	made = api.editor_schema("accelerate", api.default_targets())
	version = made["else"]["properties"]["fsdp_config"]["properties"]["fsdp_version"]
	assert version["default"] == "1"
	assert "FSDP" in version["description"]
