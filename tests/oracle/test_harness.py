"""The oracle's own parts that need no library: cases, mutations, shrinking, outcomes, archives."""

import copy
import io
import json
import logging
import tarfile
import zipfile
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
import yaml
from tests.oracle import comparison, liveness, mutations, tables, worker
from tests.oracle.agreement import FIXED_SEED, RELEASES, Group, by_signature, merged
from tests.oracle.cases import Case, own, questions
from tests.oracle.comparison import Row, Truth, truth_for_any, truth_of
from tests.oracle.environment import PINS, Environment
from tests.oracle.judge import Judgement, Said, judge
from tests.oracle.mutations import smallest
from tests.oracle.tracing import Traced, unread

import packed
import releases
from extraction import release_order

ZERO = {
	"train_batch_size": 64,
	"train_micro_batch_size_per_gpu": 4,
	"gradient_accumulation_steps": 2,
	"optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "betas": [0.9, 0.95], "weight_decay": "auto"}},
	"gradient_clipping": 0.5,
	"bf16": {"enabled": True},
}


def accelerate_case(**config: Any) -> Case:
	return Case("c", "accelerate", yaml.safe_dump(config))


def deepspeed_case(config: dict[str, Any]) -> Case:
	return Case("d", "deepspeed", json.dumps(config), ".json")


# --- cases ---


def test_open_questions_of_an_accelerate_file_are_answered_by_flags_and_files() -> None:
	case = accelerate_case(
		distributed_type="DEEPSPEED", num_machines=2, deepspeed_config={"deepspeed_config_file": "conf/z.json"}
	)
	asked = questions(case)["launch"]
	assert asked["flags"] == ["--num_processes", "8", "--main_process_ip", "10.0.0.1"]
	assert json.loads(asked["files"]["conf/z.json"])["zero_optimization"] == {"stage": 2}
	assert asked["files"]["config.yaml"] == case.text


def test_a_sagemaker_file_gets_keys_and_the_tables_that_it_names() -> None:
	case = accelerate_case(compute_environment="AMAZON_SAGEMAKER", sagemaker_inputs_file="in.tsv")
	asked = questions(case)["launch"]
	assert asked["flags"][::2] == ["--aws_access_key_id", "--aws_secret_access_key"]
	assert asked["files"]["in.tsv"].startswith("name\tvalue\n")


SIZES = {"parallelism_config_dp_shard_size": "4", "parallelism_config_tp_size": 4}


@pytest.mark.parametrize(
	("config", "flags"),
	[
		({"num_processes": 4, "num_machines": 2, "main_process_ip": "node-a"}, []),  # nothing is open
		({"distributed_type": "FSDP", "parallelism_config": SIZES}, ["--num_processes", "16"]),
		({"distributed_type": "FSDP", "num_processes": 4, "parallelism_config": SIZES}, []),
		({"distributed_type": "NO"}, ["--num_processes", "1"]),
		({"compute_environment": "AMAZON_SAGEMAKER", "profile": "p"}, []),
	],
)
def test_the_number_of_processes_follows_the_parallel_sizes(config: dict[str, Any], flags: list[str]) -> None:
	assert questions(accelerate_case(**config))["launch"]["flags"] == flags


def test_a_file_that_is_at_hand_is_left_alone() -> None:
	case = accelerate_case(deepspeed_config={"deepspeed_config_file": "/etc/z.json"})
	assert list(questions(case)["launch"]["files"]) == ["config.yaml"]


def test_batch_arithmetic_and_arguments_follow_the_deepspeed_file() -> None:
	asked = questions(deepspeed_case(ZERO))
	assert {reader: question["world_size"] for reader, question in asked.items()} == dict.fromkeys(asked, 8)
	assert asked["accelerate"]["arguments"] == {"batch_size": 4, "gradient_accumulation_steps": 2}
	assert asked["trainer"]["arguments"] == {
		"per_device_train_batch_size": 4,
		"gradient_accumulation_steps": 2,
		"learning_rate": 3e-5,
		"adam_beta1": 0.9,
		"adam_beta2": 0.95,
		"max_grad_norm": 0.5,
		"bf16": True,
	}


# --- mutations ---


@pytest.fixture(scope="module")
def pool() -> mutations.Pool:
	examples = list(own())
	assert {"accelerate", "deepspeed"} <= {case.kind for case in examples}
	return mutations.Pool([case for case in examples if case.kind == "accelerate"])


@pytest.mark.parametrize("kind", mutations.KINDS)
def test_forty_mutations_of_each_kind_can_be_drawn(pool: mutations.Pool, kind: str) -> None:
	drawn = mutations.mutants(pool, kind, 40, FIXED_SEED)
	assert len({case.text for case in drawn}) == 40
	assert drawn == mutations.mutants(pool, kind, 40, FIXED_SEED)
	assert drawn != mutations.mutants(pool, kind, 40, FIXED_SEED + 1)
	assert {case.group for case in drawn} == {kind}


def test_mutations_do_what_their_names_say(pool: mutations.Pool) -> None:
	originals = {case.name: case for case in pool.cases}
	for kind, difference in (("drop", -1), ("misspell", 0), ("retype", 0), ("move", 0)):
		for mutant in mutations.mutants(pool, kind, 20, 3):
			before = originals[mutant.name.split(" ")[0]]
			assert mutant.data != before.data
			if not any(isinstance(value, dict) for value in before.data.values()):
				many, few = (len(mutations.keys(case.data)) for case in (mutant, before))
				assert many - few in (difference, 1), mutant.name


def test_rename_keeps_the_order_and_replaces_a_key_that_is_there() -> None:
	mapping = {"a": 1, "b": 2, "c": 3}
	mutations.rename_key(mapping, "b", "c")
	assert list(mapping.items()) == [("a", 1), ("c", 2)]


def test_shrinking_keeps_only_what_shows_the_disagreement() -> None:
	case = accelerate_case(a=1, b={"c": 2, "d": 3}, e={"f": 4})
	small = smallest(case, lambda tried: tried.data.get("b", {}).get("d") == 3)
	assert small.data == {"b": {"d": 3}}


def test_shrinking_stops_at_its_budget() -> None:
	shows = Mock(return_value=False)
	smallest(accelerate_case(**{f"k{number}": number for number in range(50)}), shows, budget=7)
	assert shows.call_count == 7


# --- outcomes ---


def row(truth: str, verdict: str, message: str = "bad") -> Row:
	error = {"type": "ValueError", "message": message, "where": "accelerate/a.py:f:12"} if truth == "rejected" else {}
	said = Judgement(verdict, (Said("ACC001", "error", "/a", "no"),) if verdict == "rejected" else ())
	case = Case("c", "accelerate", "a: 1\n")
	return Row("accelerate", "1.15.0", "launch", case, truth_of({"verdict": truth, "error": error}), said)


@pytest.mark.parametrize(
	("truth", "verdict", "outcome"),
	[
		("accepted", "accepted", "agree"),
		("rejected", "rejected", "agree"),
		("rejected", "unreadable", "agree"),
		("accepted", "rejected", "false error"),
		("accepted", "unreadable", "false error"),
		("rejected", "accepted", "missed"),
		("undecided", "rejected", "left out"),
		("failed", "accepted", "left out"),
	],
)
def test_outcomes(truth: str, verdict: str, outcome: str) -> None:
	assert row(truth, verdict).outcome == outcome


def test_refusals_that_are_not_the_configs_are_left_out() -> None:
	absent = "Expected a string path to an existing deepspeed config, or a dictionary. Received: /data/ds.json"
	assert row("rejected", "accepted", absent).outcome == "left out"
	assert row("rejected", "accepted", absent.replace("/data/", "")).outcome == "missed"


def test_a_deepspeed_file_that_asks_for_more_processes_is_left_out() -> None:
	error = {"type": "RuntimeError", "message": "Mesh should not be bigger than default world size 1", "where": "t:f:1"}
	answer = {"verdict": "rejected", "error": error}
	assert truth_of(answer, "deepspeed").verdict == "left out"
	assert truth_of(answer, "accelerate").verdict == "rejected"  # which names the number itself


def test_a_lone_deepspeed_file_is_accepted_if_anybody_takes_it() -> None:
	yes, no, open_ = Truth("accepted", "", {}), Truth("rejected", "", {"type": "E"}), Truth("left out", "no GPU", {})
	assert truth_for_any({"a": no, "b": yes, "c": open_}) == yes
	assert truth_for_any({"a": no, "b": open_}) == open_
	assert truth_for_any({"a": no, "b": no}) == no


def test_disagreements_are_grouped_by_reason() -> None:
	said = ("rejected accepted", "rejected accepted", "accepted rejected", "accepted accepted")
	groups = by_signature([row(*words.split()) for words in said])
	assert [[member.outcome for member in members] for members in groups] == [["missed"] * 2, ["false error"]]
	assert groups[0][0].signature[-1] == "ValueError in accelerate/a.py:f"


def test_table_counts() -> None:
	rows = [row("rejected", "accepted"), row("accepted", "accepted"), row("undecided", "accepted")]
	page = tables.markdown(rows, "7")
	assert "|Accelerate 1.15.0|2|1|0|1|1|50.0 %|" in page
	assert "- missed, accelerate, 1 in 1.15.0: not explained yet: ValueError in accelerate/a.py:f" in page
	assert "seed 7." in page.split("\n## ")[0]


def test_what_is_left_has_its_reason() -> None:
	open_address = row("rejected", "accepted", "The hostname of the rendezvous endpoint '${HEAD}:29500' must be …")
	assert "shell variable" in tables.reason_for(open_address)
	assert not tables.reason_for(row("rejected", "accepted", "The hostname of the rendezvous endpoint '-:1' must be"))


def test_groups_of_several_releases_are_merged() -> None:
	one = row("rejected", "accepted")
	assert [group.times for group in merged([Group(one, one, 2), Group(one, one, 3)])] == [5]


def test_every_compared_release_is_pinned() -> None:
	assert set(comparison.LIBRARY_OF.values()) == set(RELEASES)
	for library, known in RELEASES.items():
		assert set(known) <= set(releases.known(library))
		assert known[-1] == PINS[library]
		assert list(known) == sorted(known, key=release_order)


def test_judging_needs_no_answers() -> None:
	assert judge(accelerate_case(distributed_type="MULTI_GPU", num_processes=2), {}).verdict == "accepted"
	assert judge(accelerate_case(distributed_type="MULTI_GPU", wrong=1), {}).verdict == "rejected"


# --- reading ---


def test_traced_mappings_note_what_is_asked_for() -> None:
	data = {"a": {"b": 1, "c": {"d": 2}}, "e": 3, "f": {"g": 4}}
	traced = Traced(data)
	assert traced["a"].get("b") == 1
	assert "e" in traced.keys()  # noqa: SIM118 (the question that DeepSpeed asks)
	assert "x" not in copy.deepcopy(traced)
	assert unread(data, traced.asked) == ["a.c", "f"]


def test_the_value_in_effect_is_found_under_the_launchers_name() -> None:
	answer = {"facts": {"launch": {"arguments": {"fsdp_offload_params": "false", "rdzv_backend": "static"}}}}
	assert liveness.effective_value(answer, ("fsdp_config", "offload_params")) == "false"
	assert liveness.effective_value(answer, ("rdzv_backend",)) == "static"
	assert liveness.effective_value(answer, ("fsdp_config", "typo")) is liveness.UNKNOWN
	assert liveness.same(False, "false")
	assert liveness.same(None, "none")
	assert not liveness.same(False, liveness.UNKNOWN)


def expectation(status: str, in_effect: bool, *codes: str) -> liveness.Expectation:
	trials = (liveness.Trial(1, False, True, status == "live", status == "env_only"),)
	key = liveness.Key(("fsdp_config", "a"), 1, trials, 2)
	found = tuple(Said(code, "warning", "/fsdp_config", "") for code in codes)
	return liveness.Expectation("c", "1.15.0", key, 1, in_effect, found)


@pytest.mark.parametrize(
	("status", "in_effect", "codes", "met"),
	[
		("dead", False, ["ACC021"], True),
		("env_only", False, [], False),
		("dead", True, ["ACC021"], True),  # which is about the block
		("live", False, ["ACC022"], False),
		("live", False, ["LCH009"], True),
	],
)
def test_what_is_expected_of_a_key(status: str, in_effect: bool, codes: list[str], met: bool) -> None:
	assert expectation(status, in_effect, *codes).met is met


def test_a_share_of_unread_keys_must_be_warned_about() -> None:
	warned, silent = expectation("dead", False, "ACC021"), expectation("dead", False)
	assert liveness.kept([warned] * 98 + [silent] * 2)
	assert not liveness.kept([warned] * 97 + [silent] * 3)


def test_warnings_about_the_block_count_where_they_say_that_nobody_reads_it() -> None:
	said = Judgement("accepted", (Said("ACC021", "warning", "/b", ""), Said("PAR033", "warning", "/b", "")))
	assert [finding.code for finding in liveness.warnings_at(said, ("b", "k"))] == ["ACC021"]
	assert [finding.code for finding in liveness.warnings_at(said, ("b",))] == ["ACC021", "PAR033"]


def test_a_free_port_is_no_difference() -> None:
	def answer(port: int, asked: int) -> dict[str, Any]:
		launch = {"arguments": {"main_process_port": asked}, "torchrun": {"rdzv_endpoint": f"127.0.0.1:{port}"}}
		return {"verdict": "accepted", "facts": {"launch": launch}}

	assert liveness.fingerprint(answer(4001, 0)) == liveness.fingerprint(answer(4002, 0))
	assert liveness.fingerprint(answer(4001, 4001)) != liveness.fingerprint(answer(4002, 4002))


def test_there_are_forty_configs_to_probe() -> None:
	assert len(liveness.configs()) == 40


# --- archives ---


def wheel(folder: Path, files: dict[str, str]) -> Path:
	archive = folder / "pack-1.0-py3-none-any.whl"
	with zipfile.ZipFile(archive, "w") as out:
		for name, text in files.items():
			out.writestr(name, text)
	return archive


def test_an_archive_with_another_digest_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
	file = releases.file_of("accelerate", "1.15.0")
	monkeypatch.setattr(releases, "archive_url", lambda *_: "somewhere")
	monkeypatch.setattr(releases, "download", lambda _: b"something else")
	with pytest.raises(releases.ReleaseError, match="sha256"):
		releases.fetch("accelerate", "1.15.0", tmp_path)
	assert not (tmp_path / "archives" / file).exists()


def test_only_the_package_is_unpacked(tmp_path: Path) -> None:
	archive = wheel(
		tmp_path, {"pack/a.py": "1", "pack/k.cu": "2", "pack-1.0.dist-info/METADATA": "3", "other/b.py": "4"}
	)
	assert {str(name) for name, _ in releases.members(archive, "pack")} == {"pack/a.py", "pack-1.0.dist-info/METADATA"}


@pytest.mark.parametrize("name", ["pack/../../evil.py", "/pack/evil.py", "pack\\evil.py"])
def test_paths_that_lead_out_are_refused(tmp_path: Path, name: str) -> None:
	with pytest.raises(releases.ReleaseError, match="unsafe"):
		list(releases.members(wheel(tmp_path, {name: "x"}), "pack"))


def test_links_of_source_archives_are_left_out(tmp_path: Path) -> None:
	archive = tmp_path / "pack-1.0.tar.gz"
	with tarfile.open(archive, "w:gz") as out:
		link = tarfile.TarInfo("pack-1.0/pack/evil.py")
		link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
		out.addfile(link)
		good = tarfile.TarInfo("pack-1.0/pack/a.py")
		good.size = 1
		out.addfile(good, io.BytesIO(b"1"))
	assert [str(name) for name, _ in releases.members(archive, "pack")] == ["pack/a.py"]


def test_pinning_keeps_the_order(tmp_path: Path) -> None:
	table = tmp_path / "releases.json.gz"
	packed.pack(table, '{"accelerate": {"1.10.0": "b"}}')
	archive = tmp_path / "accelerate-1.9.0-py3-none-any.whl"
	archive.write_bytes(b"x")
	releases.pin("accelerate", "1.9.0", archive, table)
	assert list(json.loads(packed.unpacked(table))["accelerate"]) == ["1.9.0", "1.10.0"]
	with pytest.raises(releases.ReleaseError, match=r"is not deepspeed-1\.9\.0\.tar\.gz"):
		releases.pin("deepspeed", "1.9.0", archive, table)


def test_the_table_is_written_as_it_is_read() -> None:
	text = packed.unpacked(releases.TABLE)
	assert packed.stored(releases.TABLE, text) == text


def test_an_environment_without_interpreter_says_so(tmp_path: Path) -> None:
	assert Environment(tmp_path).missing() == ["the interpreter"]


def test_a_warning_that_cannot_be_formatted_ends_no_run() -> None:
	listener = worker.Listener()
	listener.emit(logging.LogRecord("a", logging.WARNING, "a.py", 1, "it is deprecated", (FutureWarning,), None))
	assert listener.heard == ["it is deprecated"]
