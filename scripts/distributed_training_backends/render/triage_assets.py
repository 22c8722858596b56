"""Style and script of the triage page: nothing is fetched, everything is inside the page."""

STYLE = """
:root { color-scheme: light dark; --page: #fbfbfa; --text: #1d1f21; --soft: #55595e; --line: #c9ccd1; --card: #ffffff;
  --code: #f1f2f4; --link: #0b57a4; --good: #1a7431; --warn: #8a5300; --bad: #b3261e; --seen: #0b5f73; }
@media (prefers-color-scheme: dark) { :root { --page: #15171a; --text: #e8e9eb; --soft: #a9aeb5; --line: #42474e;
  --card: #1d2024; --code: #26292e; --link: #8fc1ff; --good: #7ed598; --warn: #f0b860; --bad: #ff9b92;
  --seen: #7fd3e6; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 62rem; padding: 1rem; background: var(--page); color: var(--text);
  font: 1rem/1.5 system-ui, sans-serif; }
h1 { font-size: 1.5rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin: 0 0 .25rem; } h3 { font-size: 1rem; }
a { color: var(--link); } code, pre { font-family: ui-monospace, monospace; font-size: .875rem; }
.summary { font-size: 1.1rem; } .soft { color: var(--soft); }
article, main > section { background: var(--card); border: 1px solid var(--line); border-radius: .5rem; padding: 1rem;
  margin: 0 0 1rem; }
.verdict { font-weight: 700; } .fits { color: var(--good); } .tight { color: var(--warn); }
.does_not_fit { color: var(--bad); } .unknown { color: var(--seen); }
.bar { display: block; width: 100%; height: 2.25rem; margin: .75rem 0 .5rem; }
td .bar { min-width: 8rem; margin: 0; height: 1.75rem; }
.track { fill: var(--code); stroke: var(--line); } .limit { fill: var(--bad); } .range { fill: var(--soft); }
.c0 { fill: #0072b2; background: #0072b2; } .c1 { fill: #e69f00; background: #e69f00; }
.c2 { fill: #009e73; background: #009e73; } .c3 { fill: #cc79a7; background: #cc79a7; }
.c4 { fill: #56b4e9; background: #56b4e9; } .c5 { fill: #d55e00; background: #d55e00; }
.c6 { fill: #8c6bb1; background: #8c6bb1; } .c7 { fill: #7f7f7f; background: #7f7f7f; }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .35em; border: 1px solid var(--line); }
.wide { overflow-x: auto; } table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; padding: .25rem .5rem; border-bottom: 1px solid var(--line); vertical-align: top; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
details { margin: .5rem 0; } summary { cursor: pointer; font-weight: 600; padding: .25rem 0; }
figure { margin: .75rem 0; } figcaption { display: flex; justify-content: space-between; align-items: center;
  gap: .5rem; } pre { width: max-content; min-width: 100%; margin: .25rem 0; padding: .75rem;
  background: var(--code); border-radius: .25rem; }
button { font: inherit; color: var(--text); background: var(--code); border: 1px solid var(--soft);
  border-radius: .25rem; padding: .25rem .75rem; min-height: 2rem; cursor: pointer; }
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px; }
li { margin: .2rem 0; overflow-wrap: anywhere; }
@media (max-width: 36rem) { body { padding: .5rem; } article, main > section { padding: .75rem; } }
@media print { button { display: none; } details > * { display: block; } }
"""

SCRIPT = """
document.addEventListener("click", function (event) {
  const button = event.target.closest("button[data-copy]");
  if (!button) { return; }
  const source = document.getElementById(button.dataset.copy);
  const said = document.getElementById("said");
  function done() { button.textContent = "Copied"; said.textContent = button.dataset.name + " copied";
    setTimeout(function () { button.textContent = "Copy"; }, 2000); }
  function select() { const range = document.createRange(); range.selectNodeContents(source);
    const selection = getSelection(); selection.removeAllRanges(); selection.addRange(range);
    if (document.execCommand("copy")) { done(); } }
  if (navigator.clipboard && isSecureContext) {
    navigator.clipboard.writeText(source.textContent).then(done, select);
  } else { select(); }
});
"""

# The classes c0 to c7: hues that stay apart for most kinds of colour blindness (after Okabe and Ito).
COLOURS = 8
