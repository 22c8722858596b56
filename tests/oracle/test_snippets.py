"""The snippets of the pages written by hand do with the real libraries what the pages say."""

import re
import shlex
from typing import Any

import pytest
from tests import claims, gated
from tests.oracle import environment
from tests.oracle.cases import questions
from tests.oracle.client import Answer, Oracle
from tests.oracle.comparison import LIBRARY_OF
from tests.oracle.environment import PINS
from tests.oracle.messages import is_given, packages
from tests.oracle.triage_checks import Libraries
from tests.pages import Fence, Page, matches, pages, read
from tests.test_pages import CONFIGS, case_of, reader_of

pytestmark = gated.oracle
FENCES = [fence for page in pages() for fence in page.fences]
SCRIPTS = [fence for fence in FENCES if fence.language == "python" and not fence.option("needs")]
# What a shell would put in; the rest of a shell script stays unread.
EXPANDED = {"$SLURM_NNODES": "2", "$SLURM_NODEID": "0", "$HEAD": "10.0.0.1", "$((SLURM_NNODES * 8))": "16"}


def expanded(command: str) -> str:
	for variable, value in EXPANDED.items():
		command = command.replace(variable, value)
	return command


COMMANDS = [
	(fence, shlex.split(expanded(command)))
	for fence in FENCES
	if fence.language == "sh"
	for command in re.findall(r"(?<!--to )\baccelerate [a-z][^'\n]*", fence.text.replace("\\\n", " "))
]


def place(item: Any) -> str:
	return item.place if isinstance(item, Fence) else ""


def compare(fence: Fence, answer: Answer) -> None:
	"""The library refuses with exactly the quoted words, or takes it where none are quoted."""
	error = answer.get("error") or {}
	said = f"{error.get('type')}: {error.get('message')}" if error else ""
	for line in fence.refusals:
		assert matches(line, said), f"quoted: {line}\nsaid: {said}"
	assert (answer["verdict"] == "rejected") == bool(fence.refusals), said or answer


@pytest.mark.parametrize("fence", CONFIGS, ids=place)
def test_config(fence: Fence, libraries: Libraries) -> None:
	case = case_of(fence)
	library = LIBRARY_OF[case.kind]
	compare(fence, libraries.oracle(library, PINS[library]).ask(questions(case)[reader_of(fence, case)]))


@pytest.mark.parametrize("fence", SCRIPTS, ids=place)
def test_script(fence: Fence, snippets: Oracle) -> None:
	processes = int(fence.option("processes") or 8)
	case = {"mode": "python", "name": fence.place, "code": fence.text, "processes": processes}
	answer = snippets.ask({**case, "config": fence.option("launch"), "files": read(fence.page).files})
	assert fence.wrong == bool(fence.refusals)
	compare(fence, answer)


@pytest.mark.parametrize(("fence", "words"), COMMANDS, ids=place)
def test_command(fence: Fence, words: list[str], snippets: Oracle) -> None:
	answer = snippets.ask({"mode": "shell", "command": words, "files": read(fence.page).files})
	compare(fence, answer)


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_names_are_in_the_libraries(page: Page, snippets: Oracle) -> None:
	names = {name for _, text, _ in page.spans for name in claims.names_in(text)}
	places = sorted({place for name in names if (place := claims.place_of(name))})
	assert snippets.ask({"mode": "names", "places": places, "files": {}})["missing"] == []


@pytest.mark.parametrize(("name", "file"), claims.listed("texts").items())
def test_texts_are_in_the_libraries(name: str, file: str) -> None:
	content = (packages(environment.default()) / file).read_bytes()
	assert (name if file.endswith(".so") else f'"{name}"').encode() in content


@pytest.mark.parametrize("page", pages(), ids=lambda page: page.name)
def test_messages_are_in_the_libraries(page: Page) -> None:
	quoted = {(line, text) for line, text, _ in page.spans if claims.kind(text) == "message"}
	elsewhere = {**claims.listed("other_messages"), **claims.listed("texts")}
	unknown = [
		item for item in sorted(quoted) if item[1] not in elsewhere and not is_given(item[1], environment.default())
	]
	assert not unknown, "\n".join(f"{line}: {text}" for line, text in unknown)


@pytest.mark.parametrize("fence", [fence for fence in FENCES if fence.option("needs")], ids=place)
def test_script_that_cannot_run_here(fence: Fence, snippets: Oracle) -> None:
	assert snippets.ask({"mode": "calls", "code": fence.text, "files": {}})["wrong"] == []


def test_what_is_wrong_is_noticed(snippets: Oracle) -> None:
	ask = snippets.ask
	places = ["accelerate.Accelerator.prepare", "accelerate.Accelerator.prepaer", "torch.optim.AdamW(fuzed)"]
	assert ask({"mode": "names", "places": places, "files": {}})["missing"] == places[1:]
	calls = "from accelerate.utils import MegatronLMPlugin, Nothing\nMegatronLMPlugin(tp_degre=2)"
	assert len(ask({"mode": "calls", "code": calls, "files": {}})["wrong"]) == 2
	python = {"mode": "python", "name": "s", "code": "assert model is None", "processes": 2, "config": "", "files": {}}
	assert ask(python)["error"]["type"] == "AssertionError"
	command = ["accelerate", "launch", "--num_procesess", "2", "train.py"]
	assert ask({"mode": "shell", "command": command, "files": {}})["verdict"] == "rejected"
	assert not is_given("FSDP2 maping failed", environment.default())
