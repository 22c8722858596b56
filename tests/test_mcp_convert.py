"""The tool convert_config."""

import json
from typing import Any

import pytest
from mcp_server.app import answered
from tests.mcp_calls import text_of
from tests.tables import table
from tests.test_convert import FILE, FSDP1, JSON, convert


def answer(**given: Any) -> dict[str, Any]:
	result = answered("convert_config", given)
	assert len(text_of(result).encode()) <= 1_200 * 2.75 or given.get("detail") == "full"
	return result.structured_content or {"error": text_of(result)}


@pytest.mark.parametrize("to", ["fsdp2", "launch", "python", "trainer", "deepspeed"])
@pytest.mark.parametrize("padding", ["", "".join(f"# {number:0900}\n" for number in range(9))])
def test_the_tool_says_the_same_and_keeps_to_its_budget(to: str, padding: str) -> None:
	full = answer(config=FSDP1 + padding, to=to, detail="full")
	assert full["text"] == convert(FSDP1 + padding, to).text
	short = answer(config=FSDP1 + padding, to=to)
	assert short["text"] in (full["text"], "")
	assert bool(short["text"]) or "detail full" in short["summary"]


@table(
	"""config, to, said
FSDP1, fsdp3, 'write fsdp (of fsdp2, fsdp'
run.yaml, fsdp2, config is the name of a file
FILE, fsdp, 'config names the DeepSpeed file ds.json: give it too'
x, fsdp2, cannot be judged
TYPO, fsdp2, refused as it is""",
	FSDP1=FSDP1,
	FILE=FILE,
	TYPO=FSDP1 + "no_such_key: 1\n",
)
def test_the_tool_refuses(config: str, to: str, said: str) -> None:
	found = answer(config=config, to=to)
	assert said in found.get("error", found.get("summary", ""))


def test_the_tool_takes_a_deepspeed_file() -> None:
	assert "fsdp_offload_params: true" in answer(config=FILE, to="fsdp", deepspeed_config=json.dumps(JSON))["text"]
