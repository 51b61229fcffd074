"""Progress lines: what is done, what is left, and for whom they are."""

import io
import logging
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "workflow"))

import progress

STAGING = {"results/cache/multihead/sgd/softmax-D100-b0-1234.h5": 30.0, "a/staging.csv": 5.0}
RANK = {f"results/cache/singlehead/erm/lbfgs-b{i}-abcd.h5": 10.0 for i in range(4)}
RANK["a/rank.csv"] = 5.0


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def run(tmp_path, monkeypatch):
    """A run of two figures of which nothing is made, its logger, and what it writes."""
    monkeypatch.chdir(tmp_path)
    clock, stream = Clock(), io.StringIO()
    settings = SimpleNamespace(quiet=set(), log_handler_settings={})
    workflow = SimpleNamespace(local_exec=True, output_settings=settings)
    state = progress.Progress({"staging": STAGING, "rank": RANK}, clock)
    logger = logging.Logger("snakemake", logging.INFO)
    logger.addHandler(progress.Follower(state, stream, workflow))

    def tell(event, **values):
        logger.info(None, extra={"event": event, **values})

    rules = {"staging": 1, "rank": 1, "train": 5, "all": 1}
    tell("run_info", stats={**rules, "total": 8})
    return SimpleNamespace(clock=clock, stream=stream, workflow=workflow, tell=tell, state=state)


def start(run, number, file, rule="train"):
    run.tell("job_info", jobid=number, rule_name=rule, output=[file])


def test_a_line_says_what_is_done_under_way_and_left(run):
    first, second, *_ = RANK
    start(run, 1, first)
    start(run, 2, second)
    run.clock.now += 20
    run.tell("job_finished", job_id=1)
    run.tell("progress", done=1, total=8)
    # The first 10 of the expected 80 s took 20 s. The other job has run as long, and so counts
    # for 9 of its 10 s: 19 s are done in 20, and 80 - 19 are left.
    assert run.stream.getvalue() == (
        "hdattn: 1 of 8 jobs, 0 of 2 figures done; now train lbfgs-b1; about 64 s left\n"
    )
    assert run.state.seconds_left() == pytest.approx((80 - 19) * 20 / 19)


def test_at_the_end_nothing_is_left(run):
    for number, file in enumerate([*STAGING, *RANK]):
        rule = Path(file).stem if file.endswith("csv") else "train"
        start(run, number, file, rule)
        run.clock.now += 1
        run.tell("job_finished", job_id=number)
    run.tell("progress", done=8, total=8)
    assert run.stream.getvalue() == "hdattn: 8 of 8 jobs, 2 of 2 figures done\n"
    assert run.state.seconds_left() == 0


def test_lines_come_at_times_and_always_at_the_end(run):
    for done in range(1, 8):
        run.clock.now += 1
        run.tell("progress", done=done, total=8)
    assert run.stream.getvalue() == ""
    run.tell("progress", done=8, total=8)
    assert run.stream.getvalue().count("\n") == 1


def test_many_jobs_are_counted_and_a_failed_one_is_under_way_no_more(run):
    files = [*RANK, *STAGING]
    for number in range(5):
        start(run, number, files[number], "rank" if files[number].endswith("csv") else "train")
    run.clock.now += 20
    run.tell("job_error", jobid=0)
    run.tell("progress", done=0, total=8)
    (line,) = run.stream.getvalue().splitlines()
    assert line.endswith("now train lbfgs-b1, train lbfgs-b2, train lbfgs-b3, 1 more")


def test_what_is_there_already_counts_nothing(run):
    made = next(iter(STAGING))
    Path(made).parent.mkdir(parents=True)
    Path(made).touch()
    state = progress.Progress({"staging": STAGING}, run.clock)
    state.start(["staging"])
    assert state.pending == {"a/staging.csv": 5.0}


@pytest.mark.parametrize("where", ["cluster", "quiet", "other logger"])
def test_it_keeps_still(run, where):
    settings = run.workflow.output_settings
    run.workflow.local_exec = where != "cluster"
    settings.quiet = {"rules"} if where == "quiet" else set()
    settings.log_handler_settings = {"rich": None} if where == "other logger" else {}
    run.clock.now += 60
    run.tell("progress", done=8, total=8)
    assert run.stream.getvalue() == ""


@pytest.mark.parametrize(
    ("terminal", "environment", "expected"),
    [(True, {}, True), (False, {}, False), (True, {"CI": "true"}, False)],
)
def test_only_a_terminal_outside_ci_is_told(terminal, environment, expected):
    stream = SimpleNamespace(isatty=lambda: terminal)
    assert progress.wanted(stream, environment) is expected


@pytest.mark.parametrize(
    ("seconds", "said"), [(7.4, "7 s"), (89, "89 s"), (600, "10 min"), (9000, "2.5 h")]
)
def test_times_are_spoken(seconds, said):
    assert progress.spoken(seconds) == said


def test_every_figure_has_its_files_and_their_times():
    from hdattn import project

    root = Path(__file__).parents[1]
    expected = progress.expected_seconds(project.catalogue_of(root, "smoke", "rank,staging"))
    assert set(expected) == {"rank", "staging"}
    assert expected["rank"]["results/figures/smoke/singlehead/rank.csv"] == progress.PLOT_SECONDS
    assert sum(file.endswith(".h5") for file in expected["rank"]) > 5
    assert all(seconds > 0 for files in expected.values() for seconds in files.values())
