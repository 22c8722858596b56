"""Fill the generated blocks of README.md and SKILL.md with what the program really prints.

A block stands between `<!-- begin NAME -->` and `<!-- end NAME -->`. Figures of the agreement, of conversions and of
the diagnosis are put there by the tools that measure them.
"""

import contextlib
import io
import json
import os
import re
import shutil
import tempfile
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import measure_lookup
import packed
import project
from distributed_training_backends import api, cli, cli_diagnose
from distributed_training_backends.knowledge import signatures as causes
from distributed_training_backends.resources import load_json
from reference_tables import BLOCK, main

DOCUMENTS = ("README.md", "SKILL.md", "CONTRIBUTING.md", "references/converting.md", "references/troubleshooting.md")
CASES = project.CASES / "diagnose"
MEASURED = ("agreement", "conversion", "diagnosis")


def printed(folder: Path, main: Callable[[Sequence[str]], int], *arguments: str) -> str:
	before = os.getcwd()
	os.chdir(folder)
	output = io.StringIO()
	try:
		with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
			main(list(arguments))
	finally:
		os.chdir(before)
	return output.getvalue()


def tour() -> str:
	said = printed(project.CASES / "tour", cli.main, "accelerate.yaml")
	return f"```text\n$ validate_backend_config.py accelerate.yaml\n{said}```\n"


def chain() -> str:
	steps: tuple[tuple[str, Callable[[Sequence[str]], int], tuple[str, ...]], ...] = (
		("diagnose_failure.py", cli_diagnose.main, ("train.log", "--config", "accelerate.yaml")),
		("validate_backend_config.py", cli.main, ("accelerate.yaml", "--fix")),
		("validate_backend_config.py", cli.main, ("accelerate.yaml",)),
	)
	with tempfile.TemporaryDirectory() as folder:
		shutil.copy(project.CASES / "chain" / "accelerate.yaml", folder)
		captured = json.loads(packed.unpacked(CASES / "real.json.gz"))
		(Path(folder) / "train.log").write_text(captured["fsdp2-strategy"], "utf-8")
		said = [f"$ {name} {' '.join(given)}\n{printed(Path(folder), main, *given)}" for name, main, given in steps]
	return "```text\n" + "\n".join(said) + "```\n"


def conversions() -> str:
	data = load_json("conversions.json")
	lines = ["| FSDP1 | FSDP2 | DeepSpeed |", "|---|---|---|"]
	for row in data["strategies"]:
		reshard = f"`fsdp_reshard_after_forward: {json.dumps(row['reshard'])}`"
		second = "`distributed_type: MULTI_GPU`" if row["reshard"] is None else reshard
		more = ", sizes in `parallelism_config`" if row.get("hybrid") else ""
		nearest = " (nearest)" if row.get("hybrid") else ""
		lines.append(f"| `{row['name']}` | {second}{more} | `zero_stage: {row['zero']}`{nearest} |")
	for row in data["backends"][1:]:
		name = f"`{row['fsdp'][0]}`"
		lines.append(f"| {name} | {name} | {' or '.join(f'`{key}`' for key in row['deepspeed'])} |")
	lines += [f"| `{name}` | none: {why} | none |" for name, why in data["fsdp2"]["dropped"].items()]
	return "\n".join(lines) + "\n"


def signs() -> str:
	counts = dict.fromkeys(causes.families(), 0)
	for one in causes.signatures():
		counts[one.family] += one.level != causes.CONSEQUENCE
	rows = [
		f"|{code} {one.name}|{counts[code]}|`{one.reference.removeprefix('references/')}`|"
		for code, one in causes.families().items()
	]
	return "\n".join(("|family|causes|section|", "|---|---:|---|", *rows)) + "\n"


def targets() -> str:
	return ", ".join(f"{name} {release}" for name, release in api.default_targets().items()) + "\n"


def families() -> str:
	counts: dict[str, int] = {}
	for rule in api.rules():
		counts[rule.code[:3]] = counts.get(rule.code[:3], 0) + 1
	listed = ", ".join(f"{family} {count}" for family, count in sorted(counts.items()))
	return f"{sum(counts.values())} rules: {listed}\n"


def lookup() -> str:
	return measure_lookup.table(measure_lookup.outcomes())


BLOCKS: dict[str, Callable[[], str]] = {
	"tour": tour,
	"chain": chain,
	"signs": signs,
	"conversions": conversions,
	"targets": targets,
	"families": families,
	"lookup": lookup,
}


def filled(path: Path) -> str:
	def block(found: re.Match[str]) -> str:
		return found[0] if found[2] in MEASURED else found[1] + BLOCKS[found[2]]() + found[3]

	return BLOCK.sub(block, path.read_text("utf-8"))


if __name__ == "__main__":
	documents = {project.ROOT / name: partial(filled, project.ROOT / name) for name in DOCUMENTS}
	raise SystemExit(main(__doc__.splitlines()[0], documents))
