"""A worker for the tests of the oracle's client: it echoes a case, or dies of it."""

import json
import sys


def main() -> None:
	print(json.dumps({"release": "fake"}), flush=True)
	for line in sys.stdin:
		case = json.loads(line)
		if case.get("die"):
			raise SystemExit(7)
		print(json.dumps({"verdict": "accepted", "said": case["say"]}), flush=True)


if __name__ == "__main__":
	main()
