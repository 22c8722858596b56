"""Here-documents of a shell script, whose gaps the shell fills in: what is not known is not judged."""

import pytest

from distributed_training_backends.api import convert_text, default_targets, validate_text
from distributed_training_backends.model import Finding, Kind, Severity
from distributed_training_backends.model_convert import BadConversionError
from distributed_training_backends.sources.detect import detect
from distributed_training_backends.sources.document import Document
from distributed_training_backends.sources.json_source import parse_json
from distributed_training_backends.sources.yaml_source import parse_yaml
from distributed_training_backends.validate import Options
from rule_examples import all_cases

KINDS: dict[str, Kind] = {"yaml": "accelerate", "json": "deepspeed"}
FILLERS = ("$VALUE", "${VALUE:-2}", "$(nproc)", "$((2 * NODES))", "`nproc`")
CONFIG = """distributed_type: FSDP
num_processes: {}
fsdp_config:
  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAPP
  fsdp_transformer_layer_cls_to_wrap: {}
"""


def script(text: str, mark: str = "EOF") -> str:
	return f"cat > config <<{mark}\n{text.rstrip()}\nEOF\naccelerate launch --config_file config train.py\n"


def told(text: str) -> list[Finding]:
	options = Options(default_targets(), effective=True, compare="1.12.0")
	found = [one for file in validate_text(text, options, "run.sh").files for one in file.findings]
	return [one for one in found if one.severity in (Severity.ERROR, Severity.WARNING)]


def goods() -> list[tuple[str, Document]]:
	"""The good examples that are a lone file of Accelerate or DeepSpeed, for the newest releases."""
	found = {}
	for examples in all_cases().values():
		for one in examples:
			name, text = one.files[0]
			kind = KINDS.get(name.rpartition(".")[2])
			if one.verdict == "good" and not one.options and len(one.files) == 1 and kind:
				parse = parse_yaml if kind == "accelerate" else parse_json
				document = parse("config", text, kind)
				if detect(document.data, text, "") == kind and not told(script(text)):
					found[text] = (one.code, document)
	return list(found.values())


@pytest.mark.parametrize("document", [pytest.param(document, id=code) for code, document in goods()])
def test_a_good_config_stays_good_whichever_values_the_shell_fills_in(document: Document) -> None:
	leaves = [place for place in document.nodes if place and not isinstance(document.get(*place), (dict, list))]
	for number, place in enumerate(leaves):
		extent = document.nodes[place].value
		filler = FILLERS[number % len(FILLERS)]
		text = document.text[: extent.start] + filler + document.text[extent.end :]
		assert told(script(text)) == [], (place, filler)


def test_the_known_entries_are_judged() -> None:
	text = CONFIG.format("$COUNT", "${LAYER}")
	(finding,) = told(script(text))
	assert (finding.code, finding.place.line) == ("FSD001", 5)
	settings = '{"train_batch_size": $SIZE, "zero_optimization": {"stage": "$STAGE", "overlap_com": true}}'
	(finding,) = told(script(settings))
	assert finding.code == "DSP004"
	assert "overlap_com" in finding.message


def test_a_quoted_mark_and_a_backslash_keep_the_shell_from_it() -> None:
	text = CONFIG.format("$COUNT", "Layer").replace("WRAPP", "WRAP")
	assert {one.code for one in told(script(text, "'EOF'"))} == {"LCH002", "ACC009"}
	assert {one.code for one in told(script(text, "\\EOF"))} == {"LCH002", "ACC009"}
	assert told(script(text.replace("$", "\\$"))) == []


@pytest.mark.parametrize("line", ["$BLOCK", "fsdp_config: {$BLOCK}", "$NAME: 3", "distributed_type: $KIND"])
def test_what_is_more_than_a_value_leaves_the_whole_open(line: str) -> None:
	text = CONFIG.format("8", "Layer").replace("distributed_type: FSDP", line)
	assert told(script(text)) == []


BAD = "distributed_type: FSDP\nnum_processes: 8\nmixed_precision: bf17\n"


@pytest.mark.parametrize(
	"text",
	[
		script(f"# made for $USER\n{BAD}"),
		script(f"# {'$(made for)' * 20}\n{BAD}main_process_ip: $({'head' * 60})\n"),
		script("\t" + BAD.rstrip().replace("\n", "\n\t"), "-EOF"),
		"read a <<< foo\nx=$((1<<n))\n" + script(BAD) + "foo\nn\n",
		f"cat > gen.sh <<'OUT'\n{script(BAD)}OUT\n",
		script("num_processes: 8\n  bad: [\n").replace("EOF", "A") + script(BAD),
	],
)
def test_the_config_is_found_and_judged(text: str) -> None:
	assert "PRC001" in {one.code for one in told(text)}


def test_lines_with_different_tabs_and_half_a_gap_are_not_judged() -> None:
	assert told(script("\tdistributed_type: FSDP\n\t\tmixed_precision: bf17\n", "-EOF")) == []
	assert told(script(BAD + "main_process_ip: $(((((a)))))\n")) == []


def test_what_the_shell_fills_in_is_not_converted() -> None:
	text = script(CONFIG.format("$COUNT", "Layer").replace("WRAPP", "WRAP"))
	with pytest.raises(BadConversionError, match="convert the file that it writes"):
		convert_text(text, "fsdp2", Options(default_targets()))
