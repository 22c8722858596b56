"""Launch commands in shell scripts and pages, and what belongs together in one call."""

from typing import Any

import pytest
from tests.tables import table

from distributed_training_backends import api
from distributed_training_backends.fix import apply
from distributed_training_backends.flow.command import command_line
from distributed_training_backends.flow.launch import launch_of
from distributed_training_backends.model import Context
from distributed_training_backends.sources.document import OPEN, Document
from distributed_training_backends.sources.launchers import launch_documents
from distributed_training_backends.sources.limits import Unreadable
from distributed_training_backends.sources.load import load_all
from distributed_training_backends.sources.reading import Raw

RUN = "accelerate launch"
OPTIONS = api.Options(api.default_targets())
FSDP = "distributed_type: FSDP\nnum_processes: 4\nfsdp_config:\n  fsdp_version: 2\n"


def commands(text: str, path: str = "run.sh") -> list[str]:
	"""Launchers and tokens; what is open is a question mark."""
	found = [one.data for one in launch_documents(path, text)]
	return ["|".join([one["launcher"], *("?" if token is OPEN else token for token in one["tokens"])]) for one in found]


# Expected words as bash 5 gives them to the program (`printf '%s\n' "$@"` in its place); ? is what only a run tells
SCRIPTS = r"""
RUN --a 'b c' "d"e f\ g # h
=> accelerate|--a|b c|de|f g

RUN \
  --a 1 \
  t.py > log 2>&1 &
ls
=> accelerate|--a|1|t.py

N=8
RUN -n $N ${N} "$M" --x=$M t.py
=> accelerate|-n|8|8|?|--x|?|t.py

A='--a 1'
RUN $A "$A" t.py
=> accelerate|--a|1|--a 1|t.py

N=8
if x; then N=4; fi
RUN $N
=> accelerate|?

if x; then N=4; RUN $N; else RUN $N; fi
=> accelerate|4
=> accelerate|?

N=1
for i in 1 2; do RUN $N $i; N=2; done
=> accelerate|?|?

N=1
read N
RUN $N
=> accelerate|?

A=(1 2)
RUN "${A[@]}" $(nproc) `nproc` *.py
=> accelerate|1|2|?|?|?

A=(1 "b c"  # d
  --x=$N)
A+=(e)
RUN "${A[@]}" ${A[@]} $A "${A[@]:1}"
=> accelerate|1|b c|--x|?|e|1|b|c|--x|?|e|1|?

A=()
RUN "${A[@]}" "${A[*]}" a
if x; then A+=('' 1); RUN "${A[@]}"; fi
RUN "${A[@]}"
=> accelerate||a
=> accelerate||1
=> accelerate|?

A=(1); A+=2; RUN "${A[@]}"
A=(1; 2); RUN "${A[@]}"
=> accelerate|?
=> accelerate|?

A=1; A+=2; RUN $A
=> accelerate|12

C="RUN --x 'a b' $N"
eval $C
bash -c "$C"
=> accelerate|--x|a b|?
=> accelerate|--x|a b|?

cat <<E
RUN 'a
E
RUN b && torchrun c; ls | tee e
=> accelerate|b
=> torchrun|c

f() { RUN a; }
x=$(RUN b | tail -1)
=> accelerate|a
=> accelerate|b

echo RUN a
pip install deepspeed
# RUN b
which torchrun
[ "$B" != "deepspeed" ] && [[ $B = torchrun ]]

python -m torch.distributed.run a
python -m deepspeed.launcher.runner
=> torchrun|a
=> deepspeed

srun -N 2 RUN a
/opt/accelerate-launch b
$RUNNER RUN c
=> accelerate|a
=> accelerate|b
=> accelerate|c

RUN --n <COUNT> {name} t.py
=> accelerate|--n|?|?|t.py

RUN 'never closed
=> accelerate|never closed"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("block", SCRIPTS.strip().split("\n\n"))
def test_words_of_commands(block: str, end: str) -> None:
	script, *expected = block.replace("RUN ", f"{RUN} ").split("\n=> ")
	assert commands(script.replace("\n", end)) == expected


def test_commands_of_a_page_stand_in_its_fences() -> None:
	page = f"Use {RUN} as follows:\n```bash\n$ {RUN} a.py\n```\nor\n```\ntorchrun b.py\n```\n"
	assert commands(page, "README.md") == ["accelerate|a.py", "torchrun|b.py"]


def test_variables_wrappers_and_the_job_are_told() -> None:
	text = "#!/bin/bash\n#SBATCH --ntasks-per-node=4\n#SBATCH -N 2\nexport A=1\nB=2\nC=3 srun -l env D=4 torchrun x\n"
	(one,) = launch_documents("job", text)
	assert one.data["environment"] == {"A": "1", "D": "4", "C": "3"}
	assert [one.raw("environment", name) for name in "ADC"] == ["1", "4", "3"]
	assert one.data["prefix"] == ["srun", "-l", "env", "D=4"]
	assert one.data["scheduler"] == {"ntasks-per-node": "4", "nodes": "2"}
	(one,) = launch_documents("job", "srun -l bash -c 'torchrun a' b")
	assert one.data["prefix"] == ["srun", "-l", "bash", "-c"]


@table("""words, script, given, faults
$ARGS --num_processes 2 t.py --x, t.py, [num_processes], []
$TRAIN_SCRIPT --num_processes 2, $TRAIN_SCRIPT, [], []
$ARGS --lr 2, '2', [], [unknown]
$ANY --num_processes 2, $ANY, [], []
--cpu=1 --num_processes --tee, ~, [cpu], [ignored-value, no-value, no-value, no-script]""")
def test_what_an_open_word_may_be(words: str, script: str | None, given: list[str], faults: list[str]) -> None:
	line = command_line(launch_documents("-", f"{RUN} {words}")[0], "1.15.0")
	assert (line.text(line.script) if line.script is not None else None) == script
	assert list(line.given) == given
	assert [fault.name for fault in line.faults] == faults
	assert all(fault.sure != words.startswith("$") for fault in line.faults)


def test_rules_say_nothing_of_a_value_that_is_open() -> None:
	report = api.validate_paths([], OPTIONS, launch=f"{RUN} --num_machines 2 --num_processes $N --machine_rank $R t.py")
	assert [one.code for one in report.files[0].findings if one.severity.value != "info"] == []


# What the shell of the job fills in is the same for all tasks of srun; a shell of each task tells them apart
FILLED = r"""
RUN --machine_rank $SLURM_PROCID t.py
=> $SLURM_PROCID

env A=1 RUN --machine_rank="${SLURM_NODEID}" --main_process_ip $(hostname) t.py
=> ${SLURM_NODEID}

bash -c "RUN --machine_rank $SLURM_PROCID t.py"
=> $SLURM_PROCID

sh -c 'RUN --machine_rank $R t.py'
=> $R

-n 2 torchrun --node_rank $R --local_addr `hostname` t.py
=> $R
=> `hostname`

bash -c 'RUN --machine_rank $SLURM_PROCID t.py'

bash -c "RUN --machine_rank \$SLURM_PROCID t.py"

bash -c "$C"

-N 1 RUN --machine_rank $SLURM_PROCID t.py

RUN --machine_rank $SLURM_PROCID --rdzv_backend c10d t.py

RUN --machine_rank $SLURMD_NODENAME t.py; for SLURMD_NODENAME in a b; do x; done

f; f() { RUN --machine_rank $SLURM_PROCID t.py; }"""


@pytest.mark.parametrize("block", FILLED.strip().split("\n\n"))
def test_ranks_that_are_filled_in_before_srun(block: str) -> None:
	line, *expected = block.replace("RUN ", f"{RUN} ").split("\n=> ")
	text = f"export R=$SLURM_NODEID\nC='{RUN} --machine_rank $SLURM_PROCID t.py'\nsrun {line}\n"
	for script, there in ((text, expected), (text.replace("srun ", "nohup "), [])):
		(file,) = api.validate_text(script, OPTIONS, "run.sh").files
		found = [script[slice(*one.place.extent)] for one in file.findings if one.code == "LCH119"]
		assert [word.rpartition("=")[2].strip('"') for word in found] == there


@table("""path, start, found
run.sh, "", 1
job, "#!/bin/sh\\n", 1
run.cmd, "", 0
README.md, "```sh\\n", 0""")
def test_line_ends_of_windows_are_told_once_and_mended(path: str, start: str, found: int) -> None:
	text = f"{start}{RUN} --cpu \\\n  t.py\n{RUN} --cpu u.py\n".replace("\n", "\r\n")
	report = api.validate_text(text, OPTIONS, path)
	hits = [one for file in report.files for one in file.findings if one.severity.value != "info"]
	assert [(one.code, one.severity.value) for one in hits] == [("LCH118", "warning")] * found
	for fix in [one.fix for one in hits]:
		assert fix is not None
		assert apply(text, [fix]).text == text.replace("\r\n", "\n")


def findings(text: str, **files: str) -> set[tuple[str, str]]:
	report = api.validate_text(text, OPTIONS, "run.sh", files)
	return {(file.path, one.code) for file in report.files for one in file.findings if one.severity.value != "info"}


def test_the_config_that_a_command_names_is_judged_with_it() -> None:
	named = f"{RUN} --config_file c.yaml --use_deepspeed --zero_stage 2 t.py\n"
	assert findings(named, **{"c.yaml": FSDP}) == {("run.sh", "XCF010"), ("c.yaml", "ACC021")}
	assert findings(named) == set()
	written = f"cat > c.yaml <<EOF\n{FSDP}EOF\n{named}"
	assert ("run.sh", "XCF010") in findings(written)
	assert findings(f"{RUN} --config_file key t.py\n", key="user: me\npassword: x\n") == set()


def test_the_deepspeed_file_that_a_command_names_is_judged_for_it() -> None:
	text = f"{RUN} --use_deepspeed --num_processes 2 --deepspeed_config_file d.json t.py\n"
	config = '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}'
	assert findings(text, **{"d.json": config}) == set()
	assert {path for path, _ in findings(text, **{"d.json": '{"zero_optimization": {"stage": 9}}'})} == {"d.json"}


def test_a_default_config_leaves_nothing_to_a_command_alone() -> None:
	launch = launch_of(None, "1.15.0", Context(), command_line(launch_documents("-", f"{RUN} --cpu t.py")[0], "1.15.0"))
	assert launch is not None
	assert (launch.route, launch.value("mixed_precision"), launch.has_config) == ("simple", "no", False)
	assert launch.arguments["num_processes"].value is OPEN


@table(
	r"""path, text, kind, data
.env, "A=1\n# x\nexport B='2 3'\nC=$D\n", environment, {A: '1', B: 2 3, C: OPEN}
<text>, "ACCELERATE_USE_CPU=true\n", environment, {ACCELERATE_USE_CPU: 'true'}
env.txt, ENV, accelerate, {distributed_type: FSDP, gpu_ids: ~}""",
	ENV="- Numpy version: 2\n- `Accelerate` default config:\n\t- distributed_type: FSDP\n\t- gpu_ids: None\n",
	OPEN=OPEN,
)
def test_environments_and_what_accelerate_env_prints(path: str, text: str, kind: str, data: dict[str, Any]) -> None:
	(one,) = load_all(Raw(path, text, "\n", False), None)
	assert isinstance(one, Document)
	assert (one.kind, one.data) == (kind, data)
	name = next(iter(data))
	extent = one.extent_of(one.value(name))
	assert text[extent.start : extent.end].strip("'") == str(data[name])


def test_fixes_of_commands_change_one_word() -> None:
	text = f'{RUN} --num-proceses 2 --mixed_precision="BF16" --fsdp_version=2 t.py'
	report = api.validate_paths([], OPTIONS, launch=text)
	edits = [edit for one in report.files[0].findings if one.fix for edit in one.fix.edits]
	assert {(text[edit.start : edit.end], edit.text) for edit in edits} >= {("--num-proceses", "--num-processes")}


@pytest.mark.parametrize(
	"piece",
	["$(", '"$(', "((", "cat <<A\n", "A+=y\n", "a \\\n#\n", "${", "`", 'bash -c "', "if x; then ", "{a", "<<-\t"],
)
def test_hostile_scripts_take_linear_time(piece: str) -> None:
	text = f"#!/bin/sh\nA=x\n{piece * 30_000}\n{RUN} a.py\n"  # quadratic work would take hours here
	assert load_all(Raw("run.sh", text, "\n", False), None)


def test_more_commands_than_are_looked_at() -> None:
	found = load_all(Raw("run.sh", f"export A=1\n{RUN} a.py\n" * 600, "\n", False), None)
	assert len([one for one in found if not isinstance(one, Unreadable)]) == 500
