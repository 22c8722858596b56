"""The tools over MCP: answers in both channels, budgets, paging, and errors that a caller can act on."""

import json
import re
from collections.abc import AsyncIterator
from typing import Any
from unittest.mock import Mock

import anyio
import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from mcp.client import Client
from mcp_server.app import TOOLS, answered, server
from mcp_server.arguments import fits
from tests.capture_failures import logs
from tests.mcp_calls import ACCELERATE, CLEAN, DEEPSPEED, MODES, call, refused, text_of
from tests.tables import table

from distributed_training_backends import api, cli
from distributed_training_backends.model_diagnose import SYMPTOMS
from rule_examples import all_cases

pytestmark = pytest.mark.anyio
TOKENS, BYTES_A_TOKEN = 1_200, 2.75  # of markdown tables; prose has four or more
LINKED = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  deepspeed_config_file: ds.json\n"
EIGHT: dict[str, Any] = {"model": "llama-3-8b", "gpu": "A100-80GB", "gpus_per_node": 8, "seq": 8192}
MANY: dict[str, Any] = {
	"model": "llama-3-70b",
	"gpu": "A100-40GB",
	"gpus_per_node": 8,
	"nodes": 4,
	"accelerate_version": "1.13.0",
	"facts": "hardware: {inter_gbit: 25, cpu_ram_gib: 512, nvme_gib: 4000}\nbatch: {seq: 32768, accumulation: 4}\n",
}
SMALL: dict[str, Any] = {"model": "llama-3-70b", "gpu": "T4", "facts": "hardware: {cpu_ram_gib: 64}"}
LOG = logs()["batch-arithmetic"]
QUERIES = ("FSD001", "fsdp_reshard_after_forward", "zero stage 3 offload", "x" * 9_000, "how to choose")
SECRET = "hf_" + "aBcDeFgHiJkLmNoPqRsT"


@pytest.fixture(params=MODES)
async def client(request: pytest.FixtureRequest) -> AsyncIterator[Client]:
	async with Client(server(), mode=request.param) as connected:
		yield connected


async def judged(client: Client, config: str, **more: Any) -> dict[str, Any]:
	return await call(client, "validate_config", {"config": config, **more})


async def found(client: Client, query: str, **more: Any) -> dict[str, Any]:
	return await call(client, "lookup_reference", {"query": query, **more})


async def test_a_config_is_judged(client: Client) -> None:
	answer = await judged(client, ACCELERATE)
	assert [answer[name] for name in ("verdict", "kind", "total", "next_offset")] == ["rejected", "accelerate", 5, -1]
	assert answer["summary"].startswith("Refused: 2 errors, 3 warnings, 2 hints.")
	severities = [finding["severity"] for finding in answer["findings"]]
	assert severities == ["error"] * 2 + ["warning"] * 3
	(one,) = [finding for finding in answer["findings"] if finding["code"] == "FSD001"]
	assert (one["line"], one["fix"]) == (12, "write true")
	assert one["reference"] == "references/rules/fsdp.md#fsd001"


async def test_a_clean_config_has_a_short_answer(client: Client) -> None:
	answer = await judged(client, CLEAN)
	assert (answer["verdict"], answer["findings"], answer["total"]) == ("accepted", [], 0)
	assert answer["summary"].startswith("Accepted as written: 0 errors, 0 warnings")


async def test_the_answer_is_that_of_the_command_line(
	client: Client, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
	(tmp_path / "config.yaml").write_text(ACCELERATE, encoding="utf-8")
	cli.main([str(tmp_path / "config.yaml"), "--accelerate-version", "1.6.0", "--output-format", "json"])
	expected = json.loads(capsys.readouterr().out)
	answer = await judged(client, ACCELERATE, accelerate_version="1.6.0", detail="full", limit=50)
	(file,) = expected["files"]
	shared = ("code", "name", "severity", "message", "pointer", "line", "column", "end_line", "end_column", "reference")
	assert answer["targets"] == expected["targets"]
	assert sorted([finding[name] for name in shared] for finding in answer["findings"]) == sorted(
		[finding[name] for name in shared] for finding in file["findings"]
	)
	fixes = {finding["code"]: finding["fix"] for finding in file["findings"] if finding["fix"]}
	told = {one["code"]: (one["fix"], one["applicability"]) for one in answer["findings"] if one["code"] in fixes}
	assert told == {code: (fix["title"], fix["applicability"]) for code, fix in fixes.items()} != {}


async def test_a_full_answer_has_hints_and_the_fixes_as_a_diff(client: Client) -> None:
	answer = await judged(client, ACCELERATE, detail="full")
	assert answer["total"] == 7
	assert "-  fsdp_offload_param: true\n+  fsdp_offload_params: true\n" in answer["diff"]


async def test_a_deepspeed_file_is_judged_with_the_config_that_names_it(client: Client) -> None:
	answer = await judged(client, LINKED, deepspeed_config=DEEPSPEED)
	assert {finding["file"] for finding in answer["findings"]} == {"deepspeed_config"}
	assert "DSP004" in {finding["code"] for finding in answer["findings"]}
	alone = await judged(client, LINKED, detail="full")
	assert [finding["code"] for finding in alone["findings"]] == ["XCF002"]
	unnamed = await judged(client, CLEAN, deepspeed_config=DEEPSPEED)
	assert {finding["file"] for finding in unnamed["findings"]} == {"deepspeed_config"}
	unreadable = await judged(client, LINKED, deepspeed_config="[" * 1_000)
	assert (unreadable["verdict"], unreadable["findings"][0]["file"]) == ("unreadable", "deepspeed_config")
	assert unreadable["summary"].startswith("deepspeed_config could not be judged.")


async def test_the_context_of_a_call_counts(client: Client) -> None:
	config = {"config": '{"train_batch_size": 6, "train_micro_batch_size_per_gpu": 2}', "consumer": "deepspeed"}
	assert (await call(client, "validate_config", {**config, "num_processes": 3}))["verdict"] == "accepted"
	assert (await call(client, "validate_config", {**config, "num_processes": 4}))["verdict"] == "rejected"


async def test_what_cannot_be_judged_says_why(client: Client) -> None:
	for text in ("\0", "just words", "[" * 1_000, "a: " + "b" * 3_000_000, "\ud800"):
		result = answered("validate_config", {"config": text}) if len(text) > 2 or not text.isprintable() else None
		answer = result.structured_content if result else await judged(client, text)
		assert (answer["verdict"], answer["kind"]) == ("unreadable", "unknown"), text[:10]
		assert answer["summary"].startswith("config could not be judged.")
		assert answer["findings"][0]["message"]


def test_no_answer_names_an_option_of_the_command_line() -> None:
	words = [word.strip("[],") for word in cli.build_parser().format_help().split()]
	options = {word for word in words if word.startswith("--")}
	texts = [example.files[0][1] for cases in all_cases().values() for example in cases]
	refused_by_one = '{"train_batch_size": "auto", "zero_optimization": {"stage": 2}}'
	for text in (*texts, " ", "just words", DEEPSPEED, refused_by_one):
		answer = answered("validate_config", {"config": text, "detail": "full"}).structured_content
		for finding in answer["findings"]:
			assert not options & set(re.findall(r"--[\w-]+", finding["message"])), finding


async def test_a_release_beyond_what_is_known_is_told(client: Client) -> None:
	answer = await judged(client, CLEAN, accelerate_version="99.1")
	newest = api.default_targets().accelerate
	assert answer["summary"].endswith(f"accelerate 99.1 is newer than what is known here: judged like {newest}.")
	assert answer["targets"]["accelerate"] == "99.1"


def large(count: int) -> str:
	lines = [f"  fsdp_offload_param{number}: true" for number in range(count)]
	return "distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n" + "\n".join(lines) + "\n"


async def test_every_finding_is_reached_by_paging(client: Client) -> None:
	seen: list[int] = []
	offset = 0
	while offset >= 0:
		answer = await judged(client, large(60), limit=25, offset=offset)
		assert answer["findings"]
		seen += [finding["line"] for finding in answer["findings"] if finding["code"] == "ACC020"]
		assert (answer["next_offset"] >= 0) == (f"go on with offset {answer['next_offset']}" in answer["summary"])
		offset = answer["next_offset"]
	assert seen == list(range(4, 64))
	beyond = await judged(client, large(60), offset=500)
	assert (beyond["findings"], beyond["next_offset"]) == ([], -1)
	assert "Offset 500 is beyond the last of" in beyond["summary"]


async def test_a_section_is_found_and_quoted(client: Client) -> None:
	answer = await found(client, "FSD001")
	assert answer["sections"][0]["reference"] == "references/rules/fsdp.md#fsd001"
	assert answer["total"] >= len(answer["sections"]) > 0
	last = await found(client, "FSD001", offset=answer["total"])
	assert (last["sections"], last["next_offset"]) == ([], -1)


async def test_nothing_found_says_what_may_be_meant(client: Client) -> None:
	answer = await found(client, "fsdp_ofload_parms")
	assert "fsdp_offload_params" in answer["summary"]


async def test_a_backend_is_chosen_with_what_starts_it(client: Client) -> None:
	answer = await call(client, "triage_backend", EIGHT)
	best = answer["best"]
	assert answer["summary"].startswith(best["title"])
	assert best["verdict"] == "fits"
	emitted = await judged(client, best["files"]["accelerate.yaml"])
	assert (emitted["verdict"], emitted["findings"]) == ("accepted", [])
	assert "accelerate launch" in best["files"]["launch.sh"]
	assert answer["total"] > len(answer["candidates"]) == answer["next_offset"]
	other = answer["candidates"][1]["name"]
	shown = await call(client, "triage_backend", {**EIGHT, "candidate": other})
	assert shown["best"]["name"] == other


async def test_facts_are_taken_as_text_or_as_they_are(client: Client) -> None:
	gpus = {"gpu": "H100-80GB", "gpus_per_node": 2}
	inner: dict[str, Any] = {"batch": {"seq": 2048}, "hardware": gpus}
	calls: list[dict[str, Any]] = [
		{"facts": inner},
		{"facts": json.dumps(inner)},
		{"facts": "batch: {seq: 2048}", **gpus},
	]
	answers = [await call(client, "triage_backend", {"model": "mistral-7b", **given}) for given in calls]
	assert answers[0] == answers[1] == answers[2]


async def test_full_answers_say_what_is_out_and_why(client: Client) -> None:
	answer = await call(client, "triage_backend", {**EIGHT, "detail": "full"})
	assert answer["removed"]
	assert all(one["reason"] and one["source"] for one in answer["removed"])
	assert answer["facts"]["batch"]["seq"] == 8192


def test_default_answers_keep_to_the_budget() -> None:
	longest: dict[str, list[dict[str, Any]]] = {
		"validate_config": [{"config": text} for text in (ACCELERATE, large(900), f"x: {'ä' * 9_000}", "distributed")],
		"lookup_reference": [{"query": query} for query in QUERIES],
		"triage_backend": [EIGHT, MANY, {**MANY, "candidate": "zero3-offload-nvme"}, {**MANY, "limit": 50}, SMALL],
	}
	longest["validate_config"].append({"config": ACCELERATE, "deepspeed_config": DEEPSPEED})
	longest["diagnose_failure"] = [{"log": log} for log in logs().values()]
	longest["diagnose_failure"] += [{"symptom": symptom} for symptom in SYMPTOMS]
	longest["diagnose_failure"].append({"log": LOG * 400, "config": large(900), "deepspeed_config": DEEPSPEED})
	for cases in all_cases().values():
		configs = [{"config": example.files[0][1]} for example in cases]
		longest["validate_config"] += [*configs, *({**one, "effective": True} for one in configs)]
	for tool, arguments in [(tool, one) for tool, calls in longest.items() for one in calls]:
		text = text_of(answered(tool, arguments))
		assert len(text.encode()) <= TOKENS * BYTES_A_TOKEN, (tool, arguments)


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("detail", ["concise", "full"])
def test_answers_are_as_their_schema_says(tool: str, detail: str) -> None:
	calls: dict[str, dict[str, Any]] = {
		"validate_config": {"config": ACCELERATE, "effective": True},
		"diagnose_failure": {"log": LOG, "config": ACCELERATE},
		"triage_backend": EIGHT,
		"lookup_reference": {"query": "zero stage 3"},
		"convert_config": {"config": CLEAN, "to": "launch"},
	}
	answer = answered(tool, {**calls[tool], "detail": detail}).structured_content
	Draft202012Validator(TOOLS[tool].outputs).validate(answer)
	assert next(iter(answer)) == "summary"
	assert "\x1b" not in json.dumps(answer)
	assert not list(nulls(answer))


def nulls(value: Any) -> Any:
	if value is None:
		yield value
	for inner in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
		yield from nulls(inner)


@table(
	r"""tool, arguments, said
validate_config, {confg: 'a: 1'}, ['has no argument ''confg''; did you mean ''config''?']
validate_config, {config: CLEAN, accelerate: '1.0'}, ['did you mean ''accelerate_version''?']
validate_config, {config: CLEAN, zzz: 1}, ['''zzz''. It takes config, launch, environment']
validate_config, {}, ['give one of config, launch, environment']
validate_config, {config: ''}, [write a text that is not empty]
validate_config, {config: ~}, ['give one of config, launch']
validate_config, {config: {a: 1}}, ['config is a structure, not its text; write a text']
validate_config, {config: [a]}, [config is a list; write a text]
validate_config, {config: configs/fsdp.yaml}, [is the name of a file, reads no files]
validate_config, {config: CLEAN, deepspeed_config: C:\ds.json}, [deepspeed_config is the name]
validate_config, {config: CLEAN, kind: acelerate}, ['write accelerate (of auto, accelerate']
validate_config, {config: CLEAN, kind: zzz}, ['write one of auto, accelerate']
validate_config, {config: CLEAN, limit: 0}, [limit is 0; write a whole number from 1 to 50]
validate_config, {config: CLEAN, limit: many}, [limit is 'many'; write a whole number]
validate_config, {config: CLEAN, limit: 1000000000000000000000000000000}, [write a whole number from 1 to 50]
validate_config, {config: CLEAN, num_processes: true}, [num_processes is True; write a whole number]
validate_config, {config: CLEAN, offset: -1}, [offset is -1; write a whole number from 0]
validate_config, {config: CLEAN, torch_version: latest}, [torch_version is 'latest', 1.10.1]
validate_config, {a: 1, b: 2, c: 3, d: 4, e: 5}, ['no argument ''a'', ''b'', ''c''. It']
diagnose_failure, {}, [needs a log or a symptom]
diagnose_failure, {log: logs/run.log}, [log is the name of a file, pass the text]
lookup_reference, {query: '  '}, [the query is empty]
lookup_reference, {query: LONG}, [not a log]
lookup_reference, {question: x}, [has no argument 'question', needs 'query']
lookup_refernce, {query: x}, ['there is no tool ''lookup_refernce''; did you mean lookup_reference?']
explain, {}, ['there is no tool ''explain''; there are validate_config, triage_backend, diagnose_failure']
triage_backend, {gpu: T4}, [model]""",
	CLEAN=CLEAN,
	LONG="x" * 20_000,
)
async def test_a_wrong_call_says_what_to_write(tool: str, arguments: dict[str, Any], said: list[str]) -> None:
	async with Client(server()) as client:
		message = await refused(client, tool, arguments)
	assert [part for part in said if part not in message] == [], message
	assert len(message) < 600
	assert "\n" not in message


@table("""arguments, said
{seq: 0}, [seq is 0; write a whole number from 1]
{gpu: Voodoo-2}, [/hardware/gpu, Voodoo-2, gpu_memory_gib]
{candidate: zero4}, [candidate is none of]
{facts: 'hardware: 8 GPUs'}, [hardware in facts is no mapping]
{facts: 'a: [1'}, [facts]
{wish: horovod}, [/wish]""")
async def test_facts_that_cannot_be_taken_are_named(arguments: dict[str, Any], said: list[str]) -> None:
	await test_a_wrong_call_says_what_to_write("triage_backend", {**EIGHT, **arguments}, said)


def values_for(schema: dict[str, Any]) -> st.SearchStrategy[Any]:
	near = [value + step for value in (schema.get("minimum", 0), schema.get("maximum", 9)) for step in (-1, 0, 1)]
	words = st.sampled_from(["", "x", *schema.get("enum", ())])
	return words | st.sampled_from(near) | st.integers() | st.text(max_size=4) | st.booleans() | st.floats() | st.none()


@given(st.data())
def test_arguments_are_checked_as_the_schemas_say(data: st.DataObject) -> None:
	tool = data.draw(st.sampled_from(list(TOOLS.values())))
	schema = data.draw(st.sampled_from(list(tool.properties.values())))
	value = data.draw(values_for(schema))
	# JSON Schema takes 8.0 for a whole number; a client that means eight writes 8
	expected = Draft202012Validator(schema).is_valid(value) and not isinstance(value, float)
	assert fits(value, schema) == expected


async def test_arguments_are_read_as_clients_write_them(client: Client) -> None:
	sloppy = {"config": CLEAN, "num_processes": " 8 ", "limit": "5", "kind": None, "accelerate_version": " 1.10.1 "}
	answer = await call(client, "validate_config", sloppy)
	assert answer["targets"]["accelerate"] == "1.10.1"


async def test_secrets_are_not_repeated(client: Client) -> None:
	answer = await judged(client, f"{CLEAN}hf_tokn: {SECRET}\n", detail="full")
	sought = await found(client, f"error: token={SECRET}")
	assert SECRET not in json.dumps([answer, sought])
	for arguments in ({"config": CLEAN, "kind": SECRET}, {"config": CLEAN, "torch_version": SECRET}, {SECRET: 1}):
		assert SECRET not in await refused(client, "validate_config", arguments)


async def test_a_failure_is_diagnosed_from_its_text(client: Client) -> None:
	answer = await call(client, "diagnose_failure", {"log": f"token={SECRET}\n{LOG}"})
	assert answer["causes"][0]["reference"] == "references/troubleshooting.md#check-batch-related-parameters"
	assert answer["causes"][0]["evidence"][0].startswith("log line ")
	assert (answer["verdict"], "next_offset" in answer, SECRET in json.dumps(answer)) == ("cause", True, False)
	fine = await call(client, "diagnose_failure", {"log": "step 1 loss 2.0\nall done\n"})
	assert (fine["verdict"], fine["causes"]) == ("no-failure", [])


@pytest.mark.parametrize(
	("error", "said"),
	[
		(
			RuntimeError(f"a defect near {SECRET}"),
			"internal error in validate_config (RuntimeError); please report it with the arguments",
		),
		(ModuleNotFoundError("No module named 'yaml'", name="yaml"), "lacks the Python package yaml"),
	],
)
async def test_our_own_mistake_and_a_missing_package_are_answers(
	error: Exception, said: str, monkeypatch: pytest.MonkeyPatch, client: Client
) -> None:
	monkeypatch.setattr(api, "validate_text", Mock(side_effect=error))
	message = await refused(client, "validate_config", {"config": CLEAN})
	assert said in message
	assert SECRET not in message


async def test_calls_at_once_do_not_disturb_each_other(client: Client) -> None:
	expected = {code: cases[0].files[0][1] for code, cases in sorted(all_cases().items())[:50]}
	alone = {code: answered("validate_config", {"config": text}) for code, text in expected.items()}
	together: dict[str, Any] = {}

	async def ask(code: str, text: str) -> None:
		together[code] = await client.call_tool("validate_config", {"config": text})

	async with anyio.create_task_group() as group:
		for code, text in expected.items():
			group.start_soon(ask, code, text)
	assert together.keys() == alone.keys()
	assert [code for code in alone if text_of(together[code]) != text_of(alone[code])] == []


async def test_what_takes_effect_is_told_when_asked(client: Client) -> None:
	answer = await judged(client, ACCELERATE, effective=True)
	assert "fsdp_plugin.fsdp_version = 2 [10:17]" in answer["effective"]
	assert "effective" not in await judged(client, ACCELERATE)
	lone = await judged(client, DEEPSPEED, effective=True)
	assert "torchrun or deepspeed" in lone["effective"][0]
