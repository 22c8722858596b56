"""Look at the page of triage in a real browser: screenshots at two widths, light and dark, and accessibility.

    python tools/check_page.py --out FOLDER [--axe axe.min.js] [--vnu vnu.jar] [--chromium chromium]

Needs Chromium. With axe-core's file (it is in the packages axe-core of npm and axe-core-python of pip) every violation
of WCAG 2.2 AA is an error, with the Nu Html Checker's jar (and Java) every mistake in HTML or CSS. Exit status 1 if
there is any.
"""

import argparse
import html
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "scripts"))

from distributed_training_backends import api
from distributed_training_backends.render.triage_page import render_page

FACTS: dict[str, Any] = {
    "model": {"name": "llama-3-8b"},
    "batch": {"seq": 8192},
    "hardware": {"gpu": "A100-80GB", "gpus_per_node": 4, "cpu_ram_gib": 512},
}
WIDTHS = {"desktop": (1280, 1800), "phone": (390, 1800)}
SCHEMES = {"light": "", "dark": "--blink-settings=preferredColorScheme=0"}
POLICY = re.compile(r"<meta http-equiv=.Content-Security-Policy.[^>]*>")
RUN_AXE = """
document.querySelectorAll("details").forEach(function (one) { one.open = true; });
axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}).then(
  function (result) {
    const found = result.violations.map(function (one) { return one.id + ": " + one.nodes[0].html; });
    const wide = document.documentElement.scrollWidth > innerWidth ? ["the page is wider than the window"] : [];
    document.documentElement.dataset.axe = JSON.stringify(found.concat(wide));
  });
"""
FOUND = re.compile(r'data-axe="([^"]*)"')


def chromium(program: str, page: Path, *options: str) -> str:
    """Open a page; gives what the browser prints."""
    command = [program, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *options, page.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        raise SystemExit(f"{program}: {done.stderr[-400:]}")
    return done.stdout


def screenshots(program: str, page: Path, folder: Path) -> Iterator[str]:
    """A picture for each width and scheme."""
    for width, (across, down) in WIDTHS.items():
        for scheme, option in SCHEMES.items():
            picture = folder / f"report-{width}-{scheme}.png"
            wanted = [f"--window-size={across},{down}", f"--screenshot={picture}", *([option] if option else [])]
            chromium(program, page, *wanted)
            yield f"{picture} {picture.stat().st_size} bytes"


def violations(program: str, text: str, axe: Path) -> Iterator[str]:
    """What axe finds, at each width and in each scheme."""
    script = axe.read_text(encoding="utf-8").replace("</script", "<\\/script")
    checked = POLICY.sub("", text).replace("</body>", f"<script>{script}</script><script>{RUN_AXE}</script></body>")
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder, "page.html")
        page.write_text(checked, encoding="utf-8")
        for width, (across, down) in WIDTHS.items():
            for scheme, option in SCHEMES.items():
                options = [f"--window-size={across},{down}", "--virtual-time-budget=20000", "--dump-dom"]
                found = FOUND.search(chromium(program, page, *options, *([option] if option else [])))
                if found is None:
                    yield f"{width} {scheme}: axe did not answer"
                else:
                    yield from (f"{width} {scheme}: {one}" for one in json.loads(html.unescape(found.group(1))))


def mistakes(page: Path, jar: Path) -> Iterator[str]:
    """What the Nu Html Checker finds in HTML and CSS."""
    command = ["java", "-jar", str(jar), "--also-check-css", "--format", "gnu", str(page)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    yield from done.stderr.splitlines()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--axe", type=Path)
    parser.add_argument("--vnu", type=Path)
    parser.add_argument("--chromium", default="chromium")
    options = parser.parse_args(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    text = render_page(api.triage(FACTS))
    page = (options.out / "report.html").resolve()
    page.write_text(text, encoding="utf-8")
    print(*screenshots(options.chromium, page, options.out), sep="\n")
    wrong = list(violations(options.chromium, text, options.axe)) if options.axe else []
    wrong += list(mistakes(page, options.vnu)) if options.vnu else []
    print(*wrong, f"{len(wrong)} errors", sep="\n")
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
