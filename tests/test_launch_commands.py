"""Launch commands in shell scripts and pages, and what belongs together in one call."""

from __future__ import annotations

from typing import Any

import pytest

from distributed_training_backends import api
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


def commands(text: str, path: str = "run.sh") -> list[list[Any]]:
    """Launchers and tokens; what is open is None."""
    found = launch_documents(path, text)
    return [
        [one.data["launcher"], *(None if token is OPEN else token for token in one.data["tokens"])] for one in found
    ]


# Expected words as bash 5 gives them to the program (`printf '%s\n' "$@"` in its place); None is what only a run tells
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"{RUN} --a 'b c' \"d\"e f\\ g # h", [["accelerate", "--a", "b c", "de", "f g"]]),
        (f"{RUN} \\\n  --a 1 \\\n  t.py > log 2>&1 &\nls", [["accelerate", "--a", "1", "t.py"]]),
        (f"{RUN} --a 1 \\\r\n  t.py\r\n", [["accelerate", "--a", "1", "t.py"]]),
        (f"N=8\n{RUN} -n $N ${{N}} \"$M\" --x=$M t.py", [["accelerate", "-n", "8", "8", None, "--x", None, "t.py"]]),
        (f"A='--a 1'\n{RUN} $A \"$A\" t.py", [["accelerate", "--a", "1", "--a 1", "t.py"]]),
        (f"N=8\nif x; then N=4; fi\n{RUN} $N", [["accelerate", None]]),
        (f"if x; then N=4; {RUN} $N; else {RUN} $N; fi", [["accelerate", "4"], ["accelerate", None]]),
        (f"N=1\nfor i in 1 2; do {RUN} $N $i; N=2; done", [["accelerate", None, None]]),
        (f"N=1\nread N\n{RUN} $N", [["accelerate", None]]),
        (f"A=(1 2)\n{RUN} \"${{A[@]}}\" $(nproc) `nproc` *.py", [["accelerate", None, None, None, None]]),
        (f"A=1; A+=2; {RUN} $A", [["accelerate", "12"]]),
        (f"C=\"{RUN} --x 'a b' $N\"\neval $C\nbash -c \"$C\"", [["accelerate", "--x", "a b", None]] * 2),
        (f"cat <<E\n{RUN} 'a\nE\n{RUN} b && torchrun c; ls | tee e", [["accelerate", "b"], ["torchrun", "c"]]),
        (f"f() {{ {RUN} a; }}\nx=$({RUN} b | tail -1)", [["accelerate", "a"], ["accelerate", "b"]]),
        (f"echo {RUN} a\npip install deepspeed\n# {RUN} b\nwhich torchrun", []),
        ("python -m torch.distributed.run a\npython -m deepspeed.launcher.runner", [["torchrun", "a"], ["deepspeed"]]),
        (f"srun -N 2 {RUN} a\n/opt/accelerate-launch b\n$RUNNER {RUN} c", [["accelerate", one] for one in "abc"]),
        (f"{RUN} --n <COUNT> {{name}} t.py", [["accelerate", "--n", None, None, "t.py"]]),
        ('[ "$B" != "deepspeed" ] && [[ $B = torchrun ]]', []),
        (f"{RUN} 'never closed\nx", [["accelerate", "never closed\nx"]]),
    ],
)  # fmt: skip
def test_words_of_commands(text: str, expected: list[list[Any]]) -> None:
    assert commands(text) == expected


def test_commands_of_a_page_stand_in_its_fences() -> None:
    page = f"Use {RUN} as follows:\n```bash\n$ {RUN} a.py\n```\nor\n```\ntorchrun b.py\n```\n"
    assert commands(page, "README.md") == [["accelerate", "a.py"], ["torchrun", "b.py"]]


def test_variables_wrappers_and_the_job_are_told() -> None:
    text = "#!/bin/bash\n#SBATCH --ntasks-per-node=4\n#SBATCH -N 2\nexport A=1\nB=2\nC=3 srun -l env D=4 torchrun x\n"
    (one,) = launch_documents("job", text)
    assert one.data["environment"] == {"A": "1", "D": "4", "C": "3"}
    assert one.data["prefix"] == ["srun", "-l", "env", "D=4"]
    assert one.data["scheduler"] == {"ntasks-per-node": "4", "nodes": "2"}
    (one,) = launch_documents("job", "srun -l bash -c 'torchrun a' b")
    assert one.data["prefix"] == ["srun", "-l", "bash", "-c"]


def test_places_of_variables() -> None:
    (one,) = launch_documents("job", "export A=1\nC=3 env D=4 torchrun x\n")
    assert [one.raw("environment", name) for name in "ADC"] == ["1", "4", "3"]


@pytest.mark.parametrize(
    ("words", "script", "given", "faults"),
    [
        ("$ARGS --num_processes 2 t.py --x", "t.py", ["num_processes"], []),
        ("$TRAIN_SCRIPT --num_processes 2", "$TRAIN_SCRIPT", [], []),
        ("$ARGS --lr 2", "2", [], ["unknown"]),
        ("$ANY --num_processes 2", "$ANY", [], []),
        ("--cpu=1 --num_processes --tee", None, ["cpu"], ["ignored-value", "no-value", "no-value", "no-script"]),
    ],
)
def test_what_an_open_word_may_be(words: str, script: str | None, given: list[str], faults: list[str]) -> None:
    line = command_line(launch_documents("-", f"{RUN} {words}")[0], "1.15.0")
    assert (line.text(line.script) if line.script is not None else None) == script
    assert list(line.given) == given
    assert [fault.name for fault in line.faults] == faults
    assert all(fault.sure != words.startswith("$") for fault in line.faults)


def test_rules_say_nothing_of_a_value_that_is_open() -> None:
    report = api.validate_paths([], OPTIONS, launch=f"{RUN} --num_machines 2 --num_processes $N --machine_rank $R t.py")
    assert [one.code for one in report.files[0].findings if one.severity.value != "info"] == []


def findings(text: str, **files: str) -> set[tuple[str, str]]:
    report = api.validate_text(text, OPTIONS, "run.sh", files)
    return {(file.path, one.code) for file in report.files for one in file.findings if one.severity.value != "info"}


def test_the_config_that_a_command_names_is_judged_with_it() -> None:
    named = f"{RUN} --config_file c.yaml --use_deepspeed --zero_stage 2 t.py\n"
    assert findings(named, **{"c.yaml": FSDP}) == {("run.sh", "XCF010"), ("c.yaml", "ACC021")}
    assert findings(named) == set()
    written = f"cat > c.yaml <<EOF\n{FSDP}EOF\n{named}"
    assert ("run.sh", "XCF010") in findings(written)
    secret = findings(f"{RUN} --config_file key t.py\n", key="user: me\npassword: x\n")
    assert secret == set()


def test_the_deepspeed_file_that_a_command_names_is_judged_for_it() -> None:
    text = f"{RUN} --use_deepspeed --num_processes 2 --deepspeed_config_file d.json t.py\n"
    assert (
        findings(text, **{"d.json": '{"zero_optimization": {"stage": 2}, "train_micro_batch_size_per_gpu": "auto"}'})
        == set()
    )
    assert {path for path, _ in findings(text, **{"d.json": '{"zero_optimization": {"stage": 9}}'})} == {"d.json"}


def test_a_default_config_leaves_nothing_to_a_command_alone() -> None:
    launch = launch_of(None, "1.15.0", Context(), command_line(launch_documents("-", f"{RUN} --cpu t.py")[0], "1.15.0"))
    assert launch is not None
    assert (launch.route, launch.value("mixed_precision"), launch.has_config) == ("simple", "no", False)
    assert launch.arguments["num_processes"].value is OPEN


@pytest.mark.parametrize(
    ("path", "text", "kind", "data"),
    [
        (".env", "A=1\n# x\nexport B='2 3'\nC=$D\n", "environment", {"A": "1", "B": "2 3", "C": OPEN}),
        ("<text>", "ACCELERATE_USE_CPU=true\n", "environment", {"ACCELERATE_USE_CPU": "true"}),
        (
            "env.txt",
            "- Numpy version: 2\n- `Accelerate` default config:\n\t- distributed_type: FSDP\n\t- gpu_ids: None\n",
            "accelerate",
            {"distributed_type": "FSDP", "gpu_ids": None},
        ),
    ],
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
