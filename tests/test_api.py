"""What the doors call: targets, files that belong together, selection, comments that silence, companions."""

import json
from pathlib import Path

import pytest
from tests.conftest import put
from tests.tables import table

from distributed_training_backends import api
from distributed_training_backends.knowledge import accelerate, deepspeed, transformers
from distributed_training_backends.model import Context, Report, Severity
from distributed_training_backends.versions import parse

pytestmark = pytest.mark.usefixtures("folder")
OPTIONS = api.Options(targets=api.default_targets())
LINKED = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
DEEPSPEED = {"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 2, "overlap_com": True}}


def codes(report: Report, severity: Severity | None = None) -> list[tuple[str, str]]:
	"""(path, code) of the findings, of one severity or of all."""
	found = [(file.path, one) for file in report.files for one in file.findings]
	return [(path, one.code) for path, one in found if severity in (None, one.severity)]


def test_default_targets_are_the_newest_that_are_known() -> None:
	newest = api.default_targets()
	assert newest.accelerate == accelerate.RELEASES[-1]
	assert newest.deepspeed == deepspeed.releases()[-1]
	assert parse(newest.transformers) == parse(transformers.RELEASES[-1])


def test_a_file_that_another_one_names_is_judged_for_accelerate() -> None:
	put(LINKED, "config.yaml")
	put(json.dumps(DEEPSPEED), "ds.json")
	report = api.validate_paths(["config.yaml"], OPTIONS)
	assert [file.path for file in report.files] == ["config.yaml", "ds.json"]
	assert codes(report, Severity.ERROR) == [("ds.json", "DSP004")]


def test_a_named_file_is_sought_from_the_working_directory_first() -> None:
	Path("configs").mkdir()
	put(LINKED, "configs/config.yaml")
	put(json.dumps(DEEPSPEED), "configs/ds.json")
	good = {**DEEPSPEED, "zero_optimization": {"stage": 2}}
	put(json.dumps(good), "ds.json")
	assert codes(api.validate_paths(["configs/config.yaml"], OPTIONS), Severity.ERROR) == []
	Path("ds.json").unlink()
	found = codes(api.validate_paths(["configs/config.yaml"], OPTIONS), Severity.ERROR)
	assert found == [("configs/ds.json", "DSP004")]


def test_companions_of_a_text_come_from_the_caller_only() -> None:
	report = api.validate_text(LINKED, OPTIONS, files={"ds.json": json.dumps(DEEPSPEED)})
	assert ("ds.json", "DSP004") in codes(report, Severity.ERROR)
	alone = api.validate_text(LINKED, OPTIONS)
	assert ("<text>", "XCF002") in codes(alone, Severity.INFO)


def test_a_missing_companion_is_an_error_once_the_launch_is_complete() -> None:
	complete = OPTIONS._replace(context=Context(launched=True))
	assert ("<text>", "XCF002") in codes(api.validate_text(LINKED, complete), Severity.ERROR)


WRONG = (
	"distributed_type: FSDP\nnum_processes: 8\nrdzv_backend: c10d{comment}\nfsdp_config:\n  fsdp_ofload_params: true\n"
)


@pytest.mark.parametrize(
	("select", "ignore", "expected"),
	[
		((), (), {"ACC020", "ACC030"}),
		(("ACC03",), (), {"ACC030"}),
		((), ("ACC030",), {"ACC020"}),
		(("ACC",), ("ACC02",), {"ACC030"}),
		(("ACC020",), ("ACC",), {"ACC020"}),
		(("DSP",), (), set()),
	],
)
def test_codes_are_selected_by_prefix(select: list[str], ignore: list[str], expected: list[str]) -> None:
	options = OPTIONS._replace(select=tuple(select), ignore=tuple(ignore))
	found = {code for _, code in codes(api.validate_text(WRONG.format(comment=""), options), Severity.WARNING)}
	assert found & {"ACC020", "ACC030"} == set(expected)


@table("""comment, silenced
'  # dtb: ignore[ACC030]', yes
'  # dtb: ignore', yes
'  # dtb: ignore[ACC020]', no
'', no""")
def test_comments_silence_findings_of_their_line(comment: str, silenced: bool) -> None:
	found = {code for _, code in codes(api.validate_text(WRONG.format(comment=comment), OPTIONS))}
	assert ("ACC030" not in found) is silenced
	assert "ACC020" in found


def test_rules_are_listed_once_and_explained() -> None:
	listed = [rule.code for rule in api.rules()]
	assert listed == sorted(set(listed))
	assert "rdzv_backend" in str(api.explain("acc030"))
	assert api.explain("ACC999") is None


ACCELERATE_FILE = "distributed_type: MULTI_GPU\nnum_processes: [8]\nbogus: 1\n"


@pytest.mark.parametrize("second", ["main.yaml", "other.yaml"])
def test_a_reference_to_an_accelerate_file_hides_nothing(second: str) -> None:
	named = f"distributed_type: DEEPSPEED\nbogus: 1\ndeepspeed_config: {{deepspeed_config_file: {second}}}\n"
	put(ACCELERATE_FILE, "other.yaml")
	put(named, "main.yaml")
	found = codes(api.validate_paths(["main.yaml", "other.yaml"], OPTIONS), Severity.ERROR)
	assert {("main.yaml", "ACC003"), ("other.yaml", "ACC003"), ("other.yaml", "LCH002"), (second, "DSP001")} <= {*found}


def test_a_file_of_another_kind_is_not_mended_as_a_deepspeed_file() -> None:
	put(json.dumps({"distributed_type": "FSDP", "num_processes": 8, "mixed_precision": "no"}), "acc.json")
	put(LINKED.replace("ds.json", "acc.json"), "main.yaml")
	report = api.validate_paths(["main.yaml", "acc.json"], OPTIONS)
	found = [finding for file in report.files for finding in file.findings if finding.code.startswith("DSP")]
	assert found
	assert all(finding.fix is None for finding in found)


def test_a_named_file_that_cannot_be_read_is_told() -> None:
	put(LINKED, "config.yaml")
	Path("ds.json").write_bytes(b'{"a": "\xff"}')
	report = api.validate_paths(["config.yaml"], OPTIONS)
	assert [(file.path, file.verdict) for file in report.files] == [
		("config.yaml", "accepted"),
		("ds.json", "unreadable"),
	]
	assert report.exit_code == 2


def test_a_walk_tells_what_looks_like_ours_and_cannot_be_judged(tmp_path: Path) -> None:
	(tmp_path / "accelerate.yaml").write_bytes("distributed_type: NO\n".encode("utf-16"))
	(tmp_path / "ours.yaml").write_bytes(b"distributed_type: MULTI_GPU\nnum_processes: 2\n# caf\xe9\n")
	(tmp_path / "theirs.yaml").write_bytes(b"caf\xe9: 1\n")
	(tmp_path / "data.json").write_text("[" * 200)
	(tmp_path / "many.json").write_text(json.dumps({f"word{number}": number for number in range(60_000)}))
	report = api.validate_paths([str(tmp_path)], OPTIONS)
	assert [Path(file.path).name for file in report.files] == ["accelerate.yaml", "ours.yaml"]
	assert report.exit_code == 2


def test_files_of_no_known_kind_are_passed_over_when_asked(tmp_path: Path) -> None:
	(tmp_path / "pod.yaml").write_text("apiVersion: v1\nkind: Pod\n")
	paths = [str(tmp_path / "pod.yaml")]
	assert api.validate_paths(paths, OPTIONS).exit_code == 2
	skipped = api.validate_paths(paths, OPTIONS._replace(skip_unknown=True))
	assert (skipped.files, skipped.exit_code) == ((), 0)


def test_every_block_of_a_page_is_judged() -> None:
	block = "```yaml\ndistributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n  fsdp_version: {}\n```\n"
	page = f"Some words.\n{block.format(2)}More words.\n{block.format(7)}"
	report = api.validate_text(page, OPTIONS, "-")
	places = [
		(file.path, one.code, one.place.line) for file in report.files for one in file.findings if one.code == "FSD007"
	]
	assert places == [("-", "FSD007", 13)]


def test_releases_that_are_not_known_are_told() -> None:
	targets = api.default_targets()._replace(accelerate="0.1.0", deepspeed="0.19.99", transformers="4.57.3")
	assert list(api.about_targets(targets)) == [
		"accelerate 0.1.0 is older than what is known here: judged like 0.20.0",
		"deepspeed 0.19.99 is newer than what is known here: judged like 0.19.8",
	]
	assert list(api.about_targets(api.default_targets()._replace(accelerate="1.12.5"))) == [
		"accelerate 1.12.5 is no release that is known here: judged like 1.12.0"
	]


def test_the_file_that_training_arguments_name_is_judged_for_the_trainer() -> None:
	text = "output_dir: out\nper_device_train_batch_size: 4\ndeepspeed: ds.json\n"
	named = json.dumps({"train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 2, "overlap_com": True}})
	report = api.validate_text(text, OPTIONS, "train.yaml", {"ds.json": named})
	assert [file.path for file in report.files] == ["train.yaml", "ds.json"]
	assert ("ds.json", "DSP004") in codes(report, Severity.ERROR)
	alone = codes(api.validate_text(named, OPTIONS._replace(context=Context(consumer="trainer")), "ds.json"))
	assert ("ds.json", "DSP004") in alone
	assert len(codes(report)) > len(alone)  # the batch sizes of the two differ


def test_broken_blocks_and_blocks_beyond_the_limit_are_told() -> None:
	block = "```yaml\ndistributed_type: MULTI_GPU\nnum_processes: 8\n```\n"
	broken = "```yaml\ndistributed_type: MULTI_GPU\nnum_processes: 8\nfsdp_config: {\n```\n"
	page = api.validate_text(f"Words.\n{block}{broken}", OPTIONS, "-")
	assert codes(page, Severity.ERROR) == [("-", "ACC001")]
	many = api.validate_text("Words.\n" + block * 501, OPTIONS, "-")
	assert [file.verdict for file in many.files] == ["accepted", "unreadable"]
	assert many.exit_code == 2


def test_lines_of_a_named_file_that_is_no_config_are_not_shown() -> None:
	for text, shown in (("hunter2\n", False), ('{"zero_optimization": {"stage": 9}}\n', True)):
		report = api.validate_text(LINKED, OPTIONS, "config.yaml", {"ds.json": text})
		[named] = [file for file in report.files if file.path == "ds.json"]
		assert named.findings
		assert (named.text is not None) is shown
