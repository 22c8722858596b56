"""Scripts and notebooks: which calls are seen, what is known of their values, and where they stand."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributed_training_backends import api
from distributed_training_backends.sources.document import OPEN, Document
from distributed_training_backends.sources.limits import LimitError, Unreadable
from distributed_training_backends.sources.load import load
from distributed_training_backends.sources.python_source import parse_python
from distributed_training_backends.sources.python_values import Made
from distributed_training_backends.sources.reading import Raw, decode

IMPORT = "from accelerate import Accelerator\n"
OPTIONS = api.Options(api.default_targets())


def read(code: str, path: str = "train.py") -> Document:
	return parse_python(path, code)


def arguments(code: str, number: int = 0) -> Any:
	return read(code).get("calls", number, "arguments")


def value(expression: str, before: str = "") -> Any:
	return arguments(f"{IMPORT}{before}\nAccelerator(x={expression})")["x"]


IMPORTS = [
	("import accelerate", "accelerate.Accelerator()"),
	("import accelerate as ac", "ac.Accelerator()"),
	("import accelerate.utils", "accelerate.utils.DeepSpeedPlugin()"),
	("from accelerate.utils import DeepSpeedPlugin as Plugin", "Plugin()"),
	("from accelerate import *", "Accelerator()"),
	("from accelerate import utils", "utils.DeepSpeedPlugin()"),
	("try:\n    from accelerate import Accelerator\nexcept ImportError:\n    Accelerator = None", "Accelerator()"),
	("def main():\n    from accelerate import Accelerator", "    Accelerator()"),
	("", "Accelerator()"),
	(f"!pip install accelerate\n%matplotlib inline\n{IMPORT}", "Accelerator()"),  # an exported notebook
	("from transformers import TrainingArguments", "TrainingArguments('out')"),
	("from trl import SFTConfig", "SFTConfig()"),
	("from transformers import TrainingArguments\nclass Mine(TrainingArguments): pass", "Mine()"),
]


@pytest.mark.parametrize(("before", "call"), IMPORTS)
def test_calls_are_found_under_any_name(before: str, call: str) -> None:
	assert len(read(f"{before}\n{call}\n").get("calls")) == 1


STRANGERS = [
	("from mine import Accelerator", "Accelerator()"),
	("class Accelerator: pass", "Accelerator()"),
	("from accelerate import Accelerator\nAccelerator = wrap(Accelerator)", "Accelerator()"),
	("import mine.accelerate", "mine.accelerate.Accelerator()"),
	("def run(Accelerator):", "    Accelerator()"),
]


@pytest.mark.parametrize(("before", "call"), STRANGERS)
def test_other_classes_of_the_same_name_are_left_alone(before: str, call: str) -> None:
	assert read(f"{before}\n{call}\n").get("calls") == []


VALUES: list[tuple[str, str, Any]] = [
	("'bf16'", "", "bf16"),
	("'bf' + '16'", "", "bf16"),
	("f'bf16'", "", "bf16"),
	("2**10 * -1024 - 1 // 1", "", -(1024**2) - 1),
	("1e-4 / 2", "", 5e-05),
	("not True", "", False),
	("[1, (2, 3)]", "", [1, [2, 3]]),
	("{'a': {'b': None}}", "", {"a": {"b": None}}),
	("{**base, 'b': 2}", "base = {'a': 1}", {"a": 1, "b": 2}),
	("dict(a=1)", "", {"a": 1}),
	("N", "M = 4\nN: int = M", 4),
	("N", "N = 4\nN = 5", OPEN),
	("N", "N = 4\nN += 1", OPEN),
	("N", "for N in range(4): pass", OPEN),
	("N", "N, M = 4, 5", OPEN),
	("N", "N = 1\ndef f():\n    global N\n    N = 2", OPEN),
	("N", "N = N", OPEN),
	("N", "a = b\nb = a\nN = a", OPEN),
	("N", "N = {'a': 1}\nN['a'] = 2", OPEN),
	("N", "N = [1]\nN.append(2)", OPEN),
	("N", "N = {'a': 1}\nchange(N)", OPEN),
	("N", "N = {'a': 1}\nprint(N)", {"a": 1}),
	("N", "import os\nN = os.environ['N']", OPEN),
	("1 if flag else 2", "", OPEN),
	("args.x", "", OPEN),
	("f'{name}'", "", OPEN),
	("b'x'", "", OPEN),
	("1 / 0", "", OPEN),
	("9 ** 9 ** 9", "", OPEN),
	("[*items]", "", OPEN),
	("{key: 1}", "", OPEN),
	("DynamoBackend.INDUCTOR", "from accelerate.utils import DynamoBackend", "INDUCTOR"),
	("torch.bfloat16", "import torch", "bfloat16"),
]


@pytest.mark.parametrize(("expression", "before", "known"), VALUES)
def test_values(expression: str, before: str, known: Any) -> None:
	assert value(expression, before) == known


def test_a_parameter_hides_a_constant_of_the_module() -> None:
	code = f"{IMPORT}N = 4\ndef one(N):\n    Accelerator(x=N)\ndef two():\n    Accelerator(x=N)\n"
	assert [call["arguments"]["x"] for call in read(code).get("calls")] == [OPEN, 4]


def test_objects_of_other_calls() -> None:
	made = Made("DeepSpeedPlugin", 0)
	assert arguments("from accelerate import *\np = DeepSpeedPlugin()\nAccelerator(a=p, b=[p])", 1) == {
		"a": made,
		"b": [made],
	}


def test_stars_and_positions() -> None:
	call = read(f"{IMPORT}Accelerator(True, **{{'a': 1}}, **dict(b=2))").get("calls", 0)
	assert (call["positional"], call["arguments"], call["open"]) == ([True], {"a": 1, "b": 2}, False)
	assert all(read(f"{IMPORT}Accelerator({stars}args)").get("calls", 0, "open") for stars in ("*", "**"))


GUARDS = [
	("if accelerator.is_main_process:\n    {}", "main"),
	("if accelerator.is_main_process and step:\n    {}", "main"),
	("if not accelerator.is_main_process:\n    pass\nelse:\n    {}", "main"),
	("@accelerator.on_main_process\ndef save():\n    {}", "main"),
	("if version.parse(accelerate.__version__) > old:\n    {}", "conditional"),
	("try:\n    {}\nexcept TypeError:\n    pass", "conditional"),
	("if not accelerator.is_main_process:\n    {}", ""),
	("if accelerator.is_main_process or debug:\n    {}", ""),
	("try:\n    {}\nexcept TypeError:\n    raise", ""),
]


@pytest.mark.parametrize(("frame", "guard"), GUARDS)
def test_guards(frame: str, guard: str) -> None:
	code = f"{IMPORT}accelerator = Accelerator()\n{frame.format('accelerator.save_state()')}\n"
	call = read(code).get("calls", 1)
	assert {name for name in ("main", "conditional") if call[name]} == ({guard} if guard else set())


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_places(newline: str) -> None:
	code = f"{IMPORT}# ü 🤗\nx = 'é'; Accelerator(größe='ß', **{{'b': 2}})\n".replace("\n", newline)
	document = read(code)
	assert document.raw("calls", 0, "arguments", "größe") == "'ß'"
	place = document.place(document.key("calls", 0, "arguments", "b"))
	assert code[place.extent.start : place.extent.end] == "'b'"
	assert (place.line, place.column) == (3, 36)


def test_notebook() -> None:
	cells: list[Any] = [
		{"cell_type": "markdown", "source": ["Accelerator(no=1)"]},
		{"cell_type": "code", "source": ["%%time\n", "!pip install \\\n", "  accelerate\n", IMPORT]},
		{"cell_type": "code", "source": "%%bash\naccelerate launch train.py"},
		{"cell_type": "code", "source": "if x:\n    !ls\nfiles = !ls\nA = Accelerator(\n\tfp16=True, b='é\"')\nA?"},
	]
	text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4}, indent=1)
	document = load(Raw("train.ipynb", text), None)
	assert isinstance(document, Document)
	assert document.kind == "python"
	assert document.get("calls", 0, "arguments") == {"fp16": True, "b": 'é"'}
	place = document.place(document.key("calls", 0, "arguments", "fp16"))
	assert text[place.extent.start : place.extent.end] == "fp16"


REFUSED = [
	("print 'x'\n", "line 2: .*Python 2"),
	("<<<<<<< HEAD\nx = 1\n", "line 2"),
	("def f(:\n", "line 2"),
	("  x = 1\n y = 2\n", "line"),
	("x = '\ud800'\n", "no Python script"),
]


@pytest.mark.parametrize(("code", "words"), REFUSED)
def test_what_python_cannot_parse_is_said_with_its_line(code: str, words: str) -> None:
	with pytest.raises(LimitError, match=words) as refused:
		read(IMPORT + code)
	assert "\n" not in refused.value.message
	assert isinstance(load(Raw("train.py", IMPORT + code), None), Unreadable)


MANY = 20_000
DEEP = [
	"-" * MANY + "1",
	"a" + ".b" * MANY,
	"1" + "+1" * MANY,
	"not " * MANY + "1",
	"(f" + "()\n" * MANY + ")",
	"(\n1" + "+\n1" * MANY + ")",
]
BEFORE = [
	"for x in {}:\n\ty",
	"with {} as x:\n\ty",
	"x = y = {}",
	"x = 1\nif y:\n\tx = {}",
	"if y: x = {}",
	"class C({}):\n\tx = y",
	"if {}:\n\tx = y",
	"for x in y:\n\treturn {}",
]


@pytest.mark.parametrize("code", DEEP)
@pytest.mark.parametrize("before", BEFORE)
def test_a_statement_that_is_too_deep_is_open_and_others_are_read(code: str, before: str) -> None:
	script = f"{IMPORT}s = '[('\n{before.format(code)}\nAccelerator(a=x, b=s)\n"
	found = load(Raw("train.py", script), None)
	assert isinstance(found, Document)
	assert found.data["calls"][0]["arguments"] == {"a": OPEN, "b": "[("}
	assert found.position(found.nodes["calls", 0].value.start)[0] == script.count("\n")


@pytest.mark.parametrize("before", ["def f(x={}):\n\tpass", "if a: f({})"])
def test_a_statement_that_cannot_be_left_open_is_too_deep(before: str) -> None:
	found = load(Raw("train.py", IMPORT + before.format(DEEP[0])), None)
	assert isinstance(found, Unreadable)
	assert found.reason == "too-deep"


@pytest.mark.parametrize("code", ["(" * MANY, "if a: pass\n" + "elif b: pass\n" * MANY])
def test_deep_nesting_is_one_clear_line_or_read(code: str) -> None:
	found = load(Raw("train.py", IMPORT + code), None)
	assert isinstance(found, Document) or found.reason in ("too-deep", "python-syntax")


def test_names_that_multiply_are_given_up() -> None:
	lines = "".join(f"n{number} = [{', '.join([f'n{number - 1}'] * 9)}]\n" for number in range(1, 30))
	assert value("n29", "n0 = [1]\n" + lines) is not None


def test_an_encoding_cookie_is_followed() -> None:
	raw = decode("# -*- coding: latin-1 -*-\nx = 'é'\n".encode("latin-1"), "train.py")
	assert isinstance(raw, Raw)
	assert "é" in raw.text
	parsed = api.parsed(raw._replace(text=f"{IMPORT}Accelerator(cpuu=True)"), None)
	(found,) = api.judged(parsed, OPTIONS, lambda _: None).files[0].findings
	assert found.code == "PYS001"
	assert found.fix is None  # what is written is UTF-8
	assert isinstance(decode("x = 'é'\n".encode("latin-1"), "train.py"), Unreadable)


def test_a_byte_order_mark_is_nothing_to_python() -> None:
	found = load(Raw("train.py", f"{IMPORT}Accelerator(x=1)", bom=True), None)
	assert isinstance(found, Document)
	assert found.get("calls", 0, "arguments") == {"x": 1}


KINDS = [
	("train.py", IMPORT, "python"),
	("train.py", "import os\n", None),
	("<text>", f"{IMPORT}Accelerator()", "python"),
	("<text>", "from accelerate import is not Python", None),
	("README.md", f"Text.\n\n```python\n{IMPORT}Accelerator(fp16=True)\n```\n", "python"),
	("c.yaml", "distributed_type: 'NO'\nnum_processes: 1\n", "accelerate"),
]


@pytest.mark.parametrize(("path", "text", "kind"), KINDS)
def test_detection(path: str, text: str, kind: str | None) -> None:
	found = load(Raw(path, text), None)
	assert (found.kind if isinstance(found, Document) else None) == kind


@given(st.text(max_size=200) | st.text(alphabet="(){}[]=,.'\"*:\n x1Accelerator", max_size=80))
def test_any_text_is_read_or_refused(text: str) -> None:
	found = load(Raw("train.py", f"{IMPORT}{text}"), "python")
	assert isinstance(found, (Document, Unreadable))
	if isinstance(found, Document):
		for node in found.nodes.values():
			assert 0 <= node.value.start <= node.value.end <= len(found.text)
