"""What the ACC, LCH and XCF rules say beyond their examples, and how they say it."""

import json
from typing import Any

import pytest
import yaml
from tests.judging import codes, judged
from tests.tables import packed_table

from distributed_training_backends.fix import splice

MACHINES = "num_processes: 4\nnum_machines: 2\nmain_process_ip: 10.0.0.5\nmain_process_port: 29500\n"


def messages(text: str, code: str, **more: Any) -> list[str]:
	return [finding.message for finding in judged(text, **more) if finding.code == code]


@packed_table("rules_accelerate.a_flag_is_advised_only_where_the_launcher_looks_at_it")
def test_a_flag_is_advised_only_where_the_launcher_looks_at_it(kind: str, setting: str, advice: str) -> None:
	said = messages(f"distributed_type: '{kind}'\n{MACHINES}{setting}\n", "ACC030")
	(message,) = [text for text in said if setting.split(":", 1)[0] in text]
	assert advice in message


DEEPSPEED = "distributed_type: DEEPSPEED\nnum_processes: 8\n"
NAMED = f"{DEEPSPEED}deepspeed_config:\n  deepspeed_config_file: ds.json\n"


def ds(**more: object) -> str:
	return json.dumps({"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}, **more})


# accelerate 1.15.0: the pair is refused by _deepspeed_config_checks, before any block of the file is looked at.
@pytest.mark.parametrize("file", [ds(fp16={"enabled": True}), ds(bf16={"enabled": True}), ds(bf16={"enabled": "auto"})])
def test_precision_beside_a_deepspeed_file_is_said_once(file: str) -> None:
	assert codes(f"{NAMED}mixed_precision: bf16\n", files={"ds.json": file}) == {"XCF001"}
	assert codes(f"{NAMED}  mixed_precision: bf16\n", files={"ds.json": file}) == {"XCF001"}


def test_where_the_precision_belongs() -> None:
	(message,) = messages(f"{NAMED}mixed_precision: 'no'\n", "XCF001", files={"ds.json": ds()})
	assert message.endswith("remove it: that file decides")


# Without a precision, set_mixed_precision("no") makes false of the "auto".
def test_auto_without_a_precision_is_a_hint() -> None:
	assert "DSP052" in codes(NAMED, "info", files={"ds.json": ds(bf16={"enabled": "auto"})})
	assert "DSP052" not in codes(NAMED, "info", files={"ds.json": ds(bf16={"enabled": True}, fp16={"enabled": "auto"})})


# accelerate 1.15.0, MULTI_GPU: the launcher exports ACCELERATE_DYNAMO_BACKEND=EAGER, the block is gone.
# 1.13.0 reads full names only in dynamo_config; "default" is the mode without any.
@packed_table("rules_accelerate.blocks")
def test_blocks(release: str, top: str, severity: str, said: str | None) -> None:
	text = f"{{num_processes: 8, distributed_type: {top}}}\n"
	assert codes(text, severity, accelerate=release) == set((said or "").split())


def test_unknown_type_says_nothing_about_launchers() -> None:
	text = "distributed_type: Banana\nnum_processes: '8'\ndeepspeed_config:\n  zero_stage: 2\n"
	assert [item.code for item in judged(text)] == ["ACC005"]


def fixes(text: str, code: str, **more: Any) -> list[str]:
	found = judged(text, **more)
	return [finding.fix.title for finding in found if finding.code == code and finding.fix is not None]


@packed_table("rules_accelerate.titles_of_fixes_show_the_quotation_marks")
def test_titles_of_fixes_show_the_quotation_marks(line: str, code: str, title: str, json_title: str) -> None:
	text = f"distributed_type: MULTI_GPU\nnum_processes: 8\n{line}\n"
	assert fixes(text, code) == [title]
	as_json = json.dumps(yaml.safe_load(text))
	assert fixes(as_json, code, path="config.json") == [json_title]


def test_missing_type_is_added_as_a_text() -> None:
	(fix,) = [item.fix for item in judged("num_processes: 1\n") if item.code == "ACC004"]
	assert fix is not None
	assert fix.edits[0].text.strip() == "distributed_type: 'NO'"


# accelerate 1.15.0: deepspeed_config sets args.num_processes, whatever stands at the top.
def test_fix_goes_where_the_value_comes_from() -> None:
	text = "distributed_type: 'NO'\nnum_processes: 8\ndeepspeed_config:\n  num_processes: '8'\n"
	(fix,) = [item.fix for item in judged(text) if item.code == "LCH002"]
	assert fix is not None
	assert splice(text, fix.edits).endswith("\n  num_processes: 8\n")


@packed_table("rules_accelerate.keys_are_named_as_they_stand")
def test_keys_are_named_as_they_stand(release: str, block: str, said: str) -> None:
	text = f"distributed_type: FSDP\nnum_processes: 8\nmixed_precision: fp8\n{block}"
	assert [item.message for item in judged(text, accelerate=release) if said in item.message]


@pytest.mark.parametrize(("value", "titles"), [("['0', 1]", ["write gpu_ids: '0,1'"]), ("[[0], 1]", []), ("[]", [])])
def test_gpu_ids_are_quoted_where_that_makes_a_list_of_ids(value: str, titles: list[str]) -> None:
	assert fixes(f"distributed_type: MULTI_GPU\nnum_processes: 2\ngpu_ids: {value}\n", "LCH007") == titles


# accelerate 1.15.0 takes gradient_accumulation_steps from the file for DEEPSPEED only (commands/launch.py)
def test_advice_about_a_key_fits_the_type_of_the_file() -> None:
	(text,) = messages("distributed_type: MULTI_GPU\nnum_processes: 4\ngradient_accumulation_steps: 4\n", "ACC003")
	assert "Accelerator(gradient_accumulation_steps=" in text
	assert "deepspeed_config" not in text
	(text,) = messages("distributed_type: DEEPSPEED\nnum_processes: 4\ngradient_accumulation_steps: 4\n", "ACC003")
	assert text.endswith("belongs into deepspeed_config")


def test_advice_about_the_keys_of_a_sagemaker_file() -> None:
	head = "compute_environment: AMAZON_SAGEMAKER\ndistributed_type: 'NO'\nec2_instance_type: ml.p3.2xlarge\n"
	role, count = messages(f"{head}iam_role: trainer\nnum_processes: 4\n", "ACC003", accelerate="1.9.0")
	assert role.endswith("did you mean iam_role_name?")
	assert "LOCAL_MACHINE" in count


def test_the_rank_of_a_machine_under_the_deepspeed_program() -> None:
	(text,) = messages(
		f"distributed_type: DEEPSPEED\nmachine_rank: 1\n{MACHINES}deepspeed_config: {{deepspeed_hostfile: hosts}}\n",
		"ACC030",
	)
	assert "several machines" not in text
	assert "deepspeed_multinode_launcher: standard" in text
