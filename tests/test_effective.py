"""What takes effect, and who lost: cases whose values the oracle compares (tests/oracle/effective.py), in small."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator

import packed
from distributed_training_backends import api
from distributed_training_backends.effects import differs
from distributed_training_backends.flow import effective
from distributed_training_backends.model import Context, Extent, Report, Severity
from distributed_training_backends.model_effective import Change, Effective, Setting
from distributed_training_backends.render.dispatch import render
from distributed_training_backends.render.effective import data_of, lines
from distributed_training_backends.render.effective import table as columns
from distributed_training_backends.render.style import Style
from distributed_training_backends.resources import load_json
from distributed_training_backends.sources.command import Word, launch_document
from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.python_source import parse_python
from distributed_training_backends.sources.yaml_source import parse_yaml

CASES = yaml.safe_load(packed.unpacked(Path(__file__).parent / "cases" / "effective.yaml.gz"))
NAMED: dict[str, Any] = CASES["named"]


def config(kind: str, more: str = "") -> str:
	return f"distributed_type: {kind}\nnum_processes: 4\n{NAMED.get(more, more)}\n"


def run(kind: str, more: str = "", release: str = "1.15.0", flags: str = "", **given: Any) -> Effective:
	"""A run; what stands in `NAMED` goes by its name there."""
	given = {name: NAMED.get(one, one) if isinstance(one, str) else one for name, one in given.items()}
	calls, deepspeed = given.get("calls", {}), given.get("deepspeed")
	words = [Word(word, Extent(0, 0)) for word in [*flags.split(), "train.py"]]
	documents = [parse_yaml("c.yaml", config(kind, more), "accelerate")]
	documents.append(launch_document("<launch>", "", Word("accelerate", Extent(0, 0)), words, {}))
	script = {"calls": [{"name": name, "arguments": arguments} for name, arguments in calls.items()]}
	documents.append(Document("s.py", "python", "python", "", script, {}))
	documents.append(Document(".env", "environment", "shell", "", given.get("variables", {}), {}))
	if deepspeed is not None:
		documents.append(Document("ds.json", "deepspeed", "json", "", deepspeed, {}))
	if "trainer" in given:
		documents.append(Document("args.yaml", "trainer", "yaml", "", given["trainer"], {}))
	return of_documents(documents, release, given.get("transformers", "5.24.0"))


def of_documents(documents: list[Document], release: str = "1.15.0", transformers: str = "5.24.0") -> Effective:
	found = effective.run_of(documents, release, Context(), transformers)
	assert found is not None
	return effective.effective(found)


def named(found: Effective, name: str) -> Setting:
	(setting,) = (one for one in found.settings if one.name == name)
	return setting


@pytest.mark.parametrize(("given", "name", "value", "surface"), CASES["counts"])
def test_what_counts(given: dict[str, Any], name: str, value: Any, surface: str) -> None:
	setting = named(run(**given), name)
	assert (setting.surface, value if setting.state == "open" else setting.value) == (surface, value)
	assert (setting.state == "open") == (name == "torchrun.nproc_per_node")


@pytest.mark.parametrize(("given", "name", "surface", "lost", "words"), CASES["loses"])
def test_who_lost_and_why(given: dict[str, Any], name: str, surface: str, lost: Any, words: str) -> None:
	setting = named(run(**given), name)
	losers = [one.reason for one in setting.losers if (one.surface, str(one.value)) == (surface, str(lost))]
	assert [words in reason for reason in losers] == [True]


def test_places_go_all_the_way_to_the_plugin() -> None:
	place = named(run("FSDP", "fsdp_config:\n  fsdp_version: 2"), "fsdp_plugin.fsdp_version").place
	assert place is not None
	assert (place.path, place.line) == ("c.yaml", 4)


def test_an_argument_that_nothing_takes_up() -> None:
	setting = named(run("DEEPSPEED", "NVME"), "argument.offload_optimizer_nvme_path")
	assert (setting.value, setting.state, setting.reader) == ("/x", "set", "")
	assert named(run("DEEPSPEED", "NVME"), "argument.offload_optimizer_device").reader == "deepspeed_launcher"


CONFIG = config("FSDP", "fsdp_config: {fsdp_version: 2, fsdp_ignored_modules: head, fsdp_use_orig_params: true}")


def told(**options: Any) -> Report:
	targets = api.default_targets()
	return api.validate_text(CONFIG, api.Options(targets, **options), "c.yaml")


def test_the_table_for_people_has_what_is_not_default() -> None:
	text = render(told(effective=True), "text")
	assert re.search(r"^fsdp_plugin\.fsdp_version +2 +c\.yaml:3:29$", text, re.MULTILINE)
	assert re.search(r"\nfsdp_plugin\.use_orig_params +null +default +c\.yaml:3:\d+ true \(not read with", text)
	assert "limit_all_gathers" not in text
	assert "limit_all_gathers" in render(told(effective=True), "text", Style(least=Severity.INFO))


def test_the_report_fits_its_schema() -> None:
	report = json.loads(render(told(effective=True, compare="1.9.0"), "json"))
	Draft202012Validator(load_json("schemas/report.schema.json")).validate(report)
	assert {"effective", "comparison"} <= report.keys()
	assert {"effective", "comparison"} & json.loads(render(told(), "json")).keys() == set()


def test_an_upgrade_that_makes_a_setting_read() -> None:
	text = render(told(compare="1.9.0"), "text")
	assert "Going from Accelerate 1.9.0 to 1.15.0 changes" in text
	assert "fsdp_plugin.ignored_modules: null [default] -> head [c.yaml:3:54]" in text
	assert "finding goes: c.yaml:3: warning[ACC020]" in text

	assert "changes nothing in this run" in render(told(compare="1.15.0"), "text")


def test_secrets_of_the_environment_are_masked() -> None:
	found = run("FSDP", variables={"HF_TOKEN": "hf_abcdefghijklmnopqrst", "WANDB_API_KEY": "0123456789"})
	text = "\n".join(lines(found, full=True)) + json.dumps(data_of(found))
	assert "variable.HF_TOKEN = ***" in text
	assert "hf_abc" not in text
	assert "0123456789" not in text


@pytest.mark.parametrize(("script", "name", "value", "state"), CASES["scripts"])
def test_a_script_with_a_trainer(script: str, name: str, value: Any, state: str) -> None:
	names = "from accelerate import *\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
	names += "from trl import SFTConfig\nimport dataclasses, os\n"
	text = f"{names}class Own(TrainingArguments): pass\nclass OwnTrainer(Trainer): pass\n{script}"
	launched = parse_yaml("c.yaml", config("FSDP", "mixed_precision: bf16"), "accelerate")
	setting = named(of_documents([launched, parse_python("s.py", text)]), name)
	assert (setting.value, setting.state) == (value, state)


def test_long_names_stand_alone() -> None:
	text = list(columns([("a" * 80, "1", "x", ""), ("b", "2", "y", "lost")]))
	assert text == ["a" * 80, "   1  x", "b  2  y  lost"]


def test_numbers_written_otherwise_are_no_change() -> None:
	one, other, third = (Setting("argument.x", value, "file", state="set") for value in (1e8, "100000000", 2))
	assert [differs(Change("x", one, two)) for two in (other, third)] == [False, True]


def test_the_name_of_the_first_machine_is_open_where_nobody_gives_it() -> None:
	found = run("MULTI_GPU", "num_machines: 2\nmain_process_port: 29501")
	assert "the text None:29501" in named(found, "torchrun.rdzv_endpoint").value
	assert named(run("XLA"), "accelerator.num_processes").state == "open"


@pytest.mark.parametrize(("commands", "there", "given", "name", "values", "told"), CASES["files"])
def test_files_given_together(
	commands: list[str],
	there: str,
	given: str,
	name: str,
	values: list[Any],
	told: int,
	tmp_path: Path,
	monkeypatch: pytest.MonkeyPatch,
) -> None:
	monkeypatch.chdir(tmp_path)
	Path("one.sh").write_text("".join(f"accelerate launch {one}\n" for one in commands))
	for path in there.split():
		Path(path).write_text(CASES["texts"][path])
	report = api.validate_paths(["one.sh", *given.split()], api.Options(api.default_targets(), effective=True))
	assert report.effective is not None
	assert [named(one, name).value for one in (report.effective, *report.effective.others)] == values
	assert sum(finding.code == "XCF034" for file in report.files for finding in file.findings) == told


def test_a_text_of_a_deepspeed_config_is_the_file_that_the_script_names() -> None:
	texts: Any = {"launch": "accelerate launch zero.py", "python": CASES["texts"]["zero.py"]}
	texts["deepspeed"] = CASES["texts"]["ds2.json"]
	found = api.validate_together(texts, api.Options(api.default_targets(), effective=True)).effective
	assert found is not None
	assert named(found, "accelerator.mixed_precision").value == "bf16"
