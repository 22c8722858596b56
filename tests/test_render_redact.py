"""Secrets are masked in every format, and nothing else is."""

import json
import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.reports import file_report, finding, place, report
from tests.tables import packed_table

from distributed_training_backends.model import Applicability, Edit, Fix
from distributed_training_backends.render.dispatch import FORMATS, render
from distributed_training_backends.render.redact import redact, redact_report

# Put together here so that no scanner takes this file for a leak.
HF = "hf" + "_" + "AbCdEfGhIjKlMnOpQrStUvWxYz0123456789"
OPENAI = "sk" + "-proj-" + "Ab0_Cd1-Ef2Gh3Ij4Kl5Mn6"
AWS = "AKIA" + "IOSFODNN7EXAMPLE"
GITHUB = "ghp" + "_" + "0123456789abcdefghijABCDEFGHIJ012345"
JWT = "eyJ" + "hbGciOiJIUzI1NiJ9" + ".eyJzdWIiOiIxMjM0In0" + ".dBjftJeZ4CVPmB92K27u"
TOKENS = [HF, OPENAI, AWS, GITHUB, JWT]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("frame", ["{}", "x: {}", '"{}"', "[{}, 1]", "the value {} is no path", "a={}&b=1", "({})"])
def test_tokens_are_masked_wherever_they_stand(token: str, frame: str) -> None:
	assert redact(frame.format(token)) == frame.format("*" * len(token))


@pytest.mark.parametrize(
	"marked",
	[
		"password: «hunter2»",
		f"x.py --wandb_key «{'0a' * 20}» y",
		f"wandb_key: «{'0a' * 20}»",
		'os.environ["DB_PASSWORD"]="«hunter2»"',
		"--key '«hf_abcdefghij»...",
		"  hub_token: «abc»  # mine",
		"db_password: «correct horse battery»",
		"- api_key: «abc»",
		'{"wandb_api_key": "«abc»", "x": 1}',
		'{"secret":\n  "«abc»"}',
		"{token: «abc», x: 1}",
		"aws_secret_access_key = «abc»",
		"AWS_ACCESS_KEY_ID=«abc» cmd",
		"accelerate launch --hub_token «abc» train.py",
		"--hub-token=«abc» x",
		"https://ada:«abc»@example.org/x",
		"Authorization: Bearer «abcdefgh12»",
		"https://host/x?sig=«abcd»&n=1&X-Amz-Signature=«abcd»",
		"Cookie: «session=abc»",
		"curl -u ada:«abc» https://host",
		"curl --user=ada:«abc» x",
		"MYSQL_PWD=«abc» x",
		"db_pass=«abc»",
		"ada:«p@ss»@host",
		"psql ada:«s3cret»@db.example.org:5432",
		"the password is «hunter2»",
		"my API key was «AB12»",
		f"wandb login «{'0a' * 20}»",
		"password: |\n«  one»\n«  two»\nnext: 1",
		"token: '«it is me»' # x",
		"password: «abc»\r\nx: 1\r\n",
	],
)
def test_values_of_telling_keys_are_masked(marked: str) -> None:
	masked = re.sub("«(.*?)»", lambda part: "*" * len(part[1]), marked)
	assert redact(re.sub("[«»]", "", marked)) == masked


def test_private_keys_are_masked_line_by_line() -> None:
	text = "k: |\n  -----BEGIN RSA PRIVATE KEY-----\n  MIIabc\n  -----END RSA PRIVATE KEY-----\nx: 1\n"
	masked = redact(text)
	assert "MIIabc" not in masked
	assert masked.count("\n") == text.count("\n")
	assert masked.endswith("END RSA PRIVATE KEY-----\nx: 1\n")


@packed_table("render_redact.what_only_looks_alike_is_left")
def test_what_only_looks_alike_is_left(text: str) -> None:
	assert redact(text) == text


@given(st.text(st.sampled_from("tokenpasword_:= \"'\\n\\r\\t|#,{}-@/.x1"), max_size=200))
def test_a_mask_keeps_length_and_lines(text: str) -> None:
	masked = redact(text)
	assert len(masked) == len(text)
	assert all(old == new or new == "*" for old, new in zip(text, masked, strict=True))
	assert [i for i, char in enumerate(text) if char in "\r\n"] == [
		i for i, char in enumerate(masked) if char in "\r\n"
	]


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("token", TOKENS)
def test_no_format_shows_a_secret(output_format: str, token: str) -> None:
	text = f"hub: {token}\npassword: tiger-lily\n"
	edit = Edit(0, 4, f"hub: {token}")
	told = finding(
		place(text, 0, 4),
		message=f"{token} is no repository",
		fix=Fix(Applicability.SAFE, f"move {token}", (edit,)),
		related=(place(text, 0, 3, pointer=f"/{token}"),),
	)
	where = place(text, text.index("password"), len(text) - 1)
	shown = render(report(file_report(text, told, finding(where, message="password: tiger-lily"))), output_format)
	assert token not in shown
	assert "tiger-lily" not in shown
	assert "*" * 8 in shown


def test_a_fix_that_would_write_the_mask_is_for_display_only() -> None:
	told = finding(place("x", 0, 1), fix=Fix(Applicability.SAFE, "move it", (Edit(0, 1, f"a: {HF}"),)))
	kept = finding(place("x", 0, 1), fix=Fix(Applicability.SAFE, "move it", (Edit(0, 1, "a: 1"),)))
	masked = redact_report(report(file_report("x", told, kept)))
	first, second = (item.fix for item in masked.files[0].findings)
	assert first is not None
	assert first.applicability is Applicability.DISPLAY
	assert second == kept.fix
	assert json.loads(render(masked, "json"))["files"][0]["findings"][0]["fix"]["edits"][0]["text"].startswith("a: ***")


UNITS = [
    "token", "token: ", 'token:"', "token:\n", " ", "a ", "eyJ-", "://", "://a:", "--", "- ", "password: |\n",
    "\n ", "-----BEGIN PRIVATE KEY-----", "a.token=", "bearer ", "# ", '"\\', "sk-", 'x: \'token: "', "token : \t",
    "[a-", "{",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_time_is_bounded_whatever_the_text_repeats(unit: str) -> None:
	text = "token: " + unit * (400_000 // len(unit))
	began = time.process_time()
	redact(text)
	assert time.process_time() - began < 8  # about one second; quadratic time would be minutes
