"""The gallery: everything on disk is shown, nothing comes from elsewhere, browsers agree."""

import csv
import json
import shutil
import subprocess
from collections import Counter
from html import escape
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import matplotlib.image
import numpy as np
import pytest

from hdattn import store
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.figures import validation
from hdattn.gallery import summary_lines, write_gallery
from hdattn.gallery.markup import caption

FIGURES = Path("results/figures/smoke")
ERM = Experiment("singlehead/erm", {"lam": 0.1}, slug="lbfgs")
GONE = Experiment("singlehead/erm", {"lam": 0.2}, slug="lost")


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Results of two figures, ``rank`` with all that can be known and ``staging`` without."""
    monkeypatch.chdir(tmp_path)
    for stem in ("multihead/staging", "singlehead/rank"):
        path = FIGURES / stem
        path.parent.mkdir(parents=True)
        matplotlib.image.imsave(f"{path}.png", np.zeros((30, 40, 3)))
        Path(f"{path}.pdf").touch()
        Path(f"{path}.csv").touch()
    dataset = store.Dataset(np.arange(3.0), "overlap", "Q", ("instance",))
    cached = Path("results/cache") / ERM.path
    cached.parent.mkdir(parents=True)
    result = store.Result({"Q": dataset})
    store.write(cached, ERM.kind, ERM.parameters, result, physics_digest="x", wall_time=1.0)
    benchmarks = Path("results/benchmarks")
    for path, seconds in ((ERM.path.with_suffix(".tsv"), 40), ("plot/smoke/rank.tsv", 2)):
        file = benchmarks / path
        file.parent.mkdir(parents=True)
        file.write_text(f"s\th:m:s\tcpu_time\n{seconds}\t0:00:40\tNA\n")
    rank = {
        "title": "Rank & <b>bold</b>",
        "parameters": {"instances": 7, "lam": 0.1},
        "experiments": {"lbfgs": [str(ERM.path), str(GONE.path)]},
        "inputs": [],
        "flagged": ["theory: not converged at alpha = 3 <script>"],
    }
    (FIGURES / "singlehead/rank.json").write_text(json.dumps(rank))
    where = {"figure": "rank", "quantity": "rank_fraction"}
    rows = [
        validation.row("alpha=1", 1.0, 1.001, 0.01, 8, 0.0, 60, **where),
        validation.row("alpha=2", 1.0, 1.5, 0.01, 8, 0.0, 60, **where),
    ]
    validation.write(FIGURES / f"singlehead/rank{validation.PART_ENDING}", rows)
    return tmp_path


class Links(HTMLParser):
    """Targets of a page, its identifiers, and the tags that it holds."""

    def __init__(self, text):
        super().__init__()
        self.targets, self.ids, self.tags = [], [], Counter()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags[tag] += 1
        for name, value in attrs:
            if name in ("href", "src"):
                self.targets.append(value)
            elif name == "id":
                self.ids.append(value)


def page():
    return (FIGURES / "index.html").read_text(encoding="utf-8")


def test_every_link_leads_to_a_file_of_the_project(project):
    write_gallery(Path())
    for index in (FIGURES / "index.html", Path("results/index.html")):
        links = Links(index.read_text(encoding="utf-8"))
        assert len(set(links.ids)) == len(links.ids)
        for target in links.targets:
            url = urlsplit(target)
            if url.scheme == "data":
                continue  # the empty icon, which keeps browsers from asking for one
            assert not (url.scheme or url.netloc)
            if url.path:
                assert (index.parent / unquote(url.path)).is_file(), target
            else:
                assert url.fragment in links.ids
    assert any(target.endswith(".h5") for target in Links(page()).targets)


def test_what_is_known_of_a_figure_is_on_its_page(project):
    (pages,) = write_gallery(Path()).values()
    assert [p.name for p in pages] == ["staging", "rank"]
    text = page()
    assert "Share of positive eigenvalues" in text  # the caption
    assert "instances = 7" in text
    assert "1 agree" in text and "1 disagree" in text
    assert "42 s of 2 jobs" in text  # the training and the drawing, by their benchmark files
    assert f"{GONE.path} (no longer there)" in text
    assert str(store.read(Path("results/cache") / ERM.path).provenance["host"]) in text
    assert "drawn by a version that did not record them" in text  # staging


def test_text_of_results_is_not_markup(project):
    write_gallery(Path())
    links = Links(page())
    assert links.tags["script"] == 1  # the page's own
    assert links.tags["b"] == 0
    assert "&lt;script&gt;" in page()


def test_a_line_for_each_figure(project):
    (pages,) = write_gallery(Path(), ["smoke"]).values()
    staging, rank = summary_lines(pages)
    assert staging == "staging  staging.json is missing, cost unknown"
    assert rank == (
        "rank     1 of 2 points agree, 1 disagree, 1 flagged, rank.json is of an earlier version "
        "and holds no digests, 42 s of 2 jobs"
    )


def test_costs_by_figure_and_rule(project):
    write_gallery(Path())
    with (FIGURES / "costs.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["figure"], row["rule"], float(row["seconds"])) for row in rows] == [
        ("rank", "train", 40.0),
        ("rank", "plot", 2.0),
    ]
    assert b"/FontFile2" in (FIGURES / "costs.pdf").read_bytes()


def test_the_overview_stands_above_the_figures(project):
    write_gallery(Path())
    assert 'id="overview"' not in page()
    shutil.copy(FIGURES / "multihead/staging.png", FIGURES / "overview.png")
    write_gallery(Path())
    text = page()
    assert text.index('id="overview"') < text.index('<article id="staging"')
    assert "A panel per result of both papers" in text  # its caption


def test_labels_that_overlap_are_listed(project):
    details = FIGURES / "singlehead/rank.json"
    content = json.loads(details.read_text()) | {"overlaps": ["(a) 'x' on (a) legend"]}
    details.write_text(json.dumps(content))
    (pages,) = write_gallery(Path()).values()
    assert "1 label crowded" in summary_lines(pages)[1]
    assert escape("(a) 'x' on (a) legend") in page()


def test_an_unreadable_result_does_not_stop_it(project):
    (Path("results/cache") / ERM.path).write_bytes(b"no HDF5")
    write_gallery(Path())
    assert "unreadable files" in page()


def test_scales_side_by_side(project):
    shutil.copytree(FIGURES, "results/figures/mine")
    assert len(write_gallery(Path())) == 2
    targets = Links(Path("results/index.html").read_text(encoding="utf-8")).targets
    assert {"figures/smoke/index.html", "figures/mine/index.html"} <= set(targets)


@pytest.mark.parametrize("scales", [["paper"], ["smoke", "nosuch"]])
def test_a_scale_without_figures_is_one_line(project, scales):
    with pytest.raises(UserError, match=r"there are no figures; make them"):
        write_gallery(Path(), scales)


def test_command(project, command):
    status, out, err = command("gallery --json")
    assert (status, err) == (0, "")
    assert json.loads(out) == {
        "pages": [{"path": str(FIGURES / "index.html"), "figures": ["staging", "rank"]}]
    }
    assert command("gallery --scale nosuch")[0] == 2


@pytest.mark.parametrize("path", sorted(Path(__file__).parents[1].glob("workflow/report/*.rst")))
def test_captions_are_sound(path):
    """One that docutils refuses (an unknown reference, say) is shown as it is, markup and all."""
    text = path.read_text(encoding="utf-8")
    assert caption(text) != f"<p>{escape(text)}</p>"
    # Snakemake's report takes these for placeholders.
    assert not any(mark in text for mark in ("{{", "{%", "{#"))


def test_a_caption_that_cannot_be_parsed_is_shown_as_it_is():
    assert caption(".. nosuch:: x\n   <y>") == "<p>.. nosuch:: x\n   &lt;y&gt;</p>"


# --- a real browser -------------------------------------------------------------------------

_PROBE = """<script>
window.problems = [];
window.onerror = function (message) { window.problems.push(message); };
</script>"""
_REPORT = """<script>
window.addEventListener("load", function () {
  var images = Array.prototype.slice.call(document.images);
  images.forEach(function (image) { image.loading = "eager"; });
  function report() {
    if (!images.every(function (image) { return image.complete; })) {
      return setTimeout(report, 50);
    }
    var shown = [].filter.call(document.querySelectorAll("article"), function (a) {
      return a.offsetHeight > 0; }).map(function (a) { return a.id; });
    document.documentElement.dataset.report = JSON.stringify({
      problems: window.problems, shown: shown,
      images: images.map(function (image) { return image.naturalWidth; }),
      width: window.innerWidth, needed: document.documentElement.scrollWidth,
      background: getComputedStyle(document.body).backgroundColor,
      ink: getComputedStyle(document.body).color });
  }
  report();
});
</script>"""


def browser():
    names = ("chromium", "chromium-browser", "google-chrome")
    return next(filter(None, map(shutil.which, names)), None)


class Report(HTMLParser):
    found = None

    def handle_starttag(self, tag, attrs):
        if tag == "html":
            self.found = json.loads(dict(attrs)["data-report"])


def visit(query="", width=1000, dark=False):
    """What a headless browser says of the page, with errors and sizes noted by a probe."""
    text = page().replace("<head>", f"<head>{_PROBE}").replace("</body>", f"{_REPORT}</body>")
    probe = FIGURES / "probe.html"
    probe.write_text(text, encoding="utf-8")
    # --no-sandbox: without it chromium refuses to run as root, as containers do.
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=30000"]
    options += [f"--user-data-dir={Path('browser').absolute()}", f"--window-size={width},900"]
    options += ["--blink-settings=preferredColorScheme=0"] if dark else []
    address = f"{probe.absolute().as_uri()}{query}"
    command = [browser(), *options, "--dump-dom", address]
    answer = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    report = Report()
    report.feed(answer.stdout)
    return report.found


needs_browser = pytest.mark.skipif(
    browser() is None, reason="no chromium here: apt-get install chromium to run this test"
)


@needs_browser
def test_in_a_browser(project):
    write_gallery(Path())
    everything = visit()
    assert everything["problems"] == []
    assert everything["shown"] == ["staging", "rank"]
    # The width of the test's images, then that of the costs: all are loaded.
    assert everything["images"][:2] == [40, 40] and everything["images"][2] > 1000
    assert visit("?search=BOLD+rank")["shown"] == ["rank"]
    assert visit("?paper=multihead")["shown"] == ["staging"]
    assert visit("?with=disagree")["shown"] == ["rank"]
    assert visit("?search=nosuchword")["shown"] == []


@needs_browser
def test_narrow_and_dark(project):
    write_gallery(Path())
    narrow = visit(width=400)
    assert narrow["needed"] <= narrow["width"] <= 500  # chromium's windows may have a least width
    light, dark = visit(), visit(dark=True)
    assert (light["background"], light["ink"]) == ("rgb(255, 255, 255)", "rgb(26, 26, 26)")
    assert (dark["background"], dark["ink"]) == ("rgb(22, 22, 22)", "rgb(232, 232, 230)")
