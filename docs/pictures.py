"""Draw the pictures of the gallery from the evidence that is committed: no number in them is from elsewhere.

    python docs/pictures.py write [CHROMIUM]   draws docs/pictures: reports as PNG, light and dark, and a figure as SVG
    python docs/pictures.py pages FOLDER       writes the reports themselves, as HTML

Each report is made by the code that the command runs, of what a run on a GPU left in benchmarks/evidence. `drawn.json` has a
digest of what each picture shows; a test compares it with that evidence as it is now. The map's record has predictions, but not
the prices of a node and of a replay that they were made with; these two are recovered from them.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tools")]

from cudagraph_skill.bench import output as bench_output  # noqa: E402
from cudagraph_skill.bench import plot, record  # noqa: E402
from cudagraph_skill.capture.cost import Cost, Kernels, Limit  # noqa: E402
from cudagraph_skill.capture.cost import Times as CallTimes  # noqa: E402
from cudagraph_skill.capture.region_map import Region, RegionMap  # noqa: E402
from cudagraph_skill.capture.result import CaptureResult  # noqa: E402
from cudagraph_skill.check.findings import Finding  # noqa: E402
from cudagraph_skill.check.findings import Region as Target  # noqa: E402
from cudagraph_skill.report import html, of_bench, of_call, of_map, of_tune  # noqa: E402
from cudagraph_skill.text import Steps  # noqa: E402
from cudagraph_skill.tune.trials import Agreement, Times, Trial, Tuning  # noqa: E402

if TYPE_CHECKING:
    from cudagraph_skill.report.page import Page

EVIDENCE = ROOT / "benchmarks" / "evidence"
PICTURES = ROOT / "docs" / "pictures"
DRAWN = PICTURES / "drawn.json"
SCHEMES = {"light": 1, "dark": 0}  # of Chromium's setting preferredColorScheme
DECIDED, MAPPED, TUNED = "decode", "047_grad_scaler_sgd", "009"
_WIDE = 1040  # CSS pixels: the width of a report, and its margins
_TALL = {"bench": 950, "decide": 805, "map": 1100, "tune": 905}  # of what is drawn: a whole part of the report, not all of it
_STEPS = Steps(
    read=lambda ref: f"skill read {ref}",
    turn=str,
    ask=str,
    explain=lambda name: f"skill explain {name}",
)
_CHROMIUM = ("chromium", "chromium-browser", "google-chrome")
_QUIET = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--hide-scrollbars",
)  # fmt: skip


def pages() -> dict[str, Page]:
    """Return the report of each picture, by its name."""
    return {"bench": _bench(), "decide": _decided(), "map": _mapped(), "tune": _tuned()}


def figure() -> str:
    """Return the figure of `skill bench` as SVG."""
    return plot.svg(record.read(EVIDENCE / "bench.json"))


def digest(page: Page) -> str:
    """Return a hash of all that a report shows, without its layout."""
    return hashlib.sha256(repr(page).encode()).hexdigest()[:16]


def _bench() -> Page:
    return of_bench.page(record.read(EVIDENCE / "bench.json"), _STEPS.read(bench_output.AFTER))


def _decided() -> Page:
    run, row = _kept("decisions.json", DECIDED)
    given = row["decision"]
    graph, limit, kernels = given["as_graph"], given["limit"], given["kernels"]
    cost = Cost(
        eager=_call_times(given["now"]),
        submit=given["now"]["submit"],
        graph=_call_times(graph["measured"]),
        capture=graph["capture"],
        memory=None,  # kept rows counted from before a capture had given memory back, and have 0
        kernels=Kernels(**kernels | {"longest": [(name, seconds) for name, seconds in kernels["longest"]]}),
        limit=Limit(**limit),
    )
    return of_call.page(_result(run, row["checked"], row["summary"])._replace(cost=cost), _STEPS)


def _mapped() -> Page:
    run, row = _kept("maps.json", MAPPED)
    given = row["map"]
    some, one = given["predicted"]["what captures now"], given["predicted"]["one graph"]
    regions = [_region(region) for region in given["regions"]]
    node, replay = (some - given["busy"]) / given["launches"], one - some
    found = RegionMap(given["wall"], given["cpu"], given["busy"], given["launches"], regions, node, replay)
    return of_map.page(_result(run, row["verdict"], row["summary"])._replace(map=found), _STEPS)


def _region(row: dict[str, Any]) -> Region:
    place, _, id_ = row["graph"].removeprefix("fails: ").rpartition(" ")
    path, _, line = place.rpartition(":")
    finding = Finding(path, int(line), 1, id_, "") if row["graph"].startswith("fails: ") else None
    kept = {name: row[name] for name in ("number", "inside", "kind", "name", "launches", "gpu", "cpu", "verdict")}
    return Region(**kept, class_name="", calls=1.0, said="", like=-1, finding=finding)


def _tuned() -> Page:
    run, row = _kept("tuning.json", TUNED)
    given = row["tuning"]
    drop = f"{Trial('make_graphed_callables').name} has graphs of"
    notes = [note for note in given["notes"] if not note.startswith(drop)]  # those are made of the trials again
    trials = [_trial(way) for way in given["ways"]]
    tuning = Tuning(_result(run, "safe", row["summary"]), trials, given["seconds"], notes)
    return of_tune.page(tuning, _STEPS, given["code"])


def _trial(way: dict[str, Any]) -> Trial:
    agreement = Agreement(**way["against_eager"]) if way["against_eager"] else None
    return Trial(way["name"], agreement, [Times(**times) for times in way["rounds"]], way["modules"], way["why"])


def _kept(file: str, name: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the run on a GPU that has a row, and the row."""
    kept = json.loads((EVIDENCE / file).read_text(encoding="utf-8"))
    runs = kept if isinstance(kept, list) else [kept]
    ((run, row),) = [(run, row) for run in runs for row in run["rows"] if row["id"] == name]
    return run, row


def _result(run: dict[str, Any], verdict: str, summary: str) -> CaptureResult:
    """Return the result of a check with the machine of its run; a summary is `verdict: target: sentence`."""
    _, name, said = summary.split(": ", 2)
    gpu, driver = run["gpus"][0].split(", ")
    machine = {"gpu": gpu, "driver": driver, "torch": run["torch"], "cuda": run["cuda"], "python": run["python"]}
    date = {"measured on": run["date"]}
    return CaptureResult(verdict, said, [], [], [], {}, {}, machine | date, [], Target("", 1, name, "named"))


def _call_times(given: dict[str, Any]) -> CallTimes:
    return CallTimes(*(given[name] for name in CallTimes._fields))


def write(chromium: str) -> None:
    """Draw every report in both colour schemes, and the figure, and keep the digests of what they show."""
    PICTURES.mkdir(exist_ok=True)
    (PICTURES / "bench.svg").write_text(figure(), encoding="utf-8")
    found = pages()
    with tempfile.TemporaryDirectory() as folder:
        for name, page in found.items():
            file = Path(folder, f"{name}.html")
            file.write_text(html.rendered(page), encoding="utf-8")
            for scheme, number in SCHEMES.items():
                picture = PICTURES / f"{name}-{scheme}.png"
                own = [f"--user-data-dir={folder}/{name}-{scheme}", f"--blink-settings=preferredColorScheme={number}"]
                size = [f"--window-size={_WIDE},{_TALL[name]}", f"--screenshot={picture}"]
                subprocess.run([chromium, *_QUIET, *own, *size, file.as_uri()], check=True, capture_output=True, timeout=120)
    DRAWN.write_text(json.dumps({name: digest(page) for name, page in found.items()}, indent=1) + "\n", encoding="utf-8")


def main() -> None:
    """Run `write [CHROMIUM]` or `pages FOLDER`."""
    match sys.argv[1:]:
        case ["pages", folder]:
            for name, page in pages().items():
                Path(folder, f"{name}.html").write_text(html.rendered(page), encoding="utf-8")
        case ["write", *given] if len(given) < 2:
            chromium = next(filter(None, map(shutil.which, given or _CHROMIUM)), None)
            if chromium is None:
                sys.exit(f"docs/pictures.py needs Chromium, and {', '.join(given or _CHROMIUM)} is not on the PATH: install it")
            write(chromium)
        case _:
            sys.exit(__doc__)


if __name__ == "__main__":
    main()
