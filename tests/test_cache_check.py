"""The check of a whole cache: everything bad is found, and nothing good is touched."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdattn import atomic, cache_check, physics_code
from hdattn.cache_check import check, remove_bad, set_aside
from hdattn.cache_index import INDEX_NAME
from hdattn.errors import UserError
from hdattn.experiment import Experiment
from hdattn.store import Dataset, Result, read, write

KIND = "singlehead/erm"


def PHYSICS(kind, stored):
    return {KIND: "now", "multihead/sgd": "now"}.get(kind)


def experiment(number, kind=KIND):
    return Experiment(kind, {"alpha": number}, slug=f"a{number}")


def add(folder, wanted, physics="now"):
    path = folder / wanted.path
    result = Result({"Q": Dataset(np.arange(3.0), "overlap")})
    write(path, wanted.kind, wanted.parameters, result, physics_digest=physics, wall_time=0.0)
    return path


@pytest.fixture
def cache(tmp_path):
    """Six good files, long enough ago for the index to remember them."""
    folder = tmp_path / "results é" / "cache"
    for number in range(5):
        add(folder, experiment(number))
    add(folder, experiment(9, "multihead/sgd"))
    return folder


@pytest.fixture
def later(monkeypatch):
    """Let the check believe that it starts ten seconds from now."""
    real = time.time_ns
    monkeypatch.setattr(cache_check.time, "time_ns", lambda: real() + 10**10)


def run(folder, **options):
    return check(folder, physics=PHYSICS, **options)


def test_good_cache(cache):
    report = run(cache)
    assert report.ok
    assert (report.bad, report.stale, report.orphaned, report.leftovers) == ([], [], [], [])
    assert (report.files, report.files_read) == (6, 6)
    assert report.lines() == [f"6 files in {cache}: 0 bad, 0 stale, 0 orphaned, 0 left over"]


def test_no_cache_yet(tmp_path):
    report = run(tmp_path / "cache")
    assert report.ok
    assert report.files == 0
    assert not (tmp_path / "cache").exists()


def flip_one_bit(path):
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 4
    path.write_bytes(data)


def write_foreign(path):
    with h5py.File(path, "w") as file:
        file["Q"] = np.arange(3.0)


def put_other_result(path):
    other = next(sibling for sibling in path.parent.glob("*.h5") if sibling != path)
    shutil.copy(other, path)


def put_link_to_nothing(path):
    path.unlink()
    path.symlink_to(path.with_name("absent"))


FAULTS = {
    "damaged": flip_one_bit,
    "truncated": lambda path: os.truncate(path, path.stat().st_size // 2),
    "empty": lambda path: path.write_bytes(b""),
    "no format version": write_foreign,
    "not an HDF5 file": lambda path: path.write_text("text" * 500),
    "other parameters": put_other_result,
    "cannot be read": put_link_to_nothing,
}


@pytest.mark.parametrize("index", [False, True], ids=["first", "incremental"])
@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_found_and_only_it_is_removed(cache, later, fault, index):
    if index:
        run(cache)
    bad = cache / experiment(2).path
    FAULTS[fault](bad)
    report = run(cache)
    assert not report.ok
    ((path, problem),) = report.bad
    assert path == bad
    assert fault in problem
    assert any(f"bad: {bad}" in line for line in report.lines())
    before = {path: path.read_bytes() for path in cache.rglob("*.h5") if path != bad}
    assert remove_bad(report) == [bad]
    assert {path: path.read_bytes() for path in cache.rglob("*.h5")} == before
    assert run(cache).ok


def snapshot(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*.h5"))}


@pytest.mark.parametrize("place", ["multihead/sgd", "backup", "backup/singlehead/erm", "."])
def test_a_whole_file_in_another_folder_is_named_and_left_alone(cache, place):
    path = cache / place / experiment(2).path.name
    path.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(cache / experiment(2).path, path)
    before = snapshot(cache)
    report = run(cache)
    problem = "holds singlehead/erm, which does not belong in this folder"
    assert (report.bad, report.misplaced) == ([], [(path, problem)])
    assert f"misplaced: {path}: {problem}" in report.lines()
    assert report.lines()[-1].endswith("0 left over, 1 misplaced")
    assert remove_bad(report) == []
    assert snapshot(cache) == before


def test_foreign_files_outside_the_folders_of_results_are_left_alone(cache):
    path = cache / "mine" / "notes.h5"
    path.parent.mkdir()
    write_foreign(path)
    report = run(cache)
    assert report.ok and "it lies in no folder of results" in dict(report.misplaced)[path]
    assert remove_bad(report) == []
    assert path.exists()


def test_a_result_under_the_name_of_another_is_set_aside_not_deleted(cache):
    whole, name = cache / experiment(3).path, cache / experiment(2).path
    content = whole.read_bytes()
    whole.replace(name)  # the only copy
    assert remove_bad(run(cache)) == [name]
    (kept,) = cache.rglob("*.bad-*")
    assert kept.read_bytes() == content
    assert run(cache).ok


def test_links_in_circles_and_to_other_folders_are_a_line_each(cache, tmp_path):
    """Nothing is deleted through them, whichever path comes first in the alphabet."""
    backup = tmp_path / "backup"
    shutil.copytree(cache, backup)
    bad = backup / experiment(1).path
    bad.write_bytes(b"")  # whatever it is, it is not ours
    links = [
        cache / name for name in ("singlehead/aloop", "singlehead/zloop", "aaa", "singlehead2")
    ]
    for link, target in zip(links, (".", "..", backup, backup / "singlehead"), strict=True):
        link.symlink_to(target, target_is_directory=True)
    before = snapshot(cache) | snapshot(backup)
    report = run(cache)
    assert (report.files, report.bad, report.misplaced) == (6, [], [])
    assert sorted(report.links) == sorted(links)
    assert sum(line.startswith("link: ") for line in report.lines()) == 4
    assert remove_bad(report) == []
    assert snapshot(cache) | snapshot(backup) == before


def test_a_second_name_of_a_folder_of_results_comes_after_its_own(cache):
    """``singlehead/amp`` is a kind, and is read before ``singlehead/erm``."""
    (cache / "singlehead/amp").symlink_to("erm", target_is_directory=True)
    report = run(cache)
    assert (report.files, report.misplaced) == (6, [])
    assert report.links == [cache / "singlehead/amp"]


def test_unchanged_files_are_not_read_again(cache, later):
    assert run(cache).files_read == 6
    assert run(cache).files_read == 0
    add(cache, experiment(3))
    add(cache, experiment(7))
    report = run(cache)
    assert (report.files, report.files_read) == (7, 2)
    assert run(cache, incremental=False).files_read == 7
    assert run(cache).files_read == 0


def test_change_that_keeps_size_and_modification_time_is_found(cache, later):
    run(cache)
    path = cache / experiment(1).path
    status = path.stat()
    flip_one_bit(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert [bad for bad, _ in run(cache).bad] == [path]


def test_young_files_are_not_remembered(cache):
    # Without the clock moved on: a second change within one tick would go unnoticed.
    run(cache)
    assert run(cache).files_read == 6


def test_bad_files_are_reported_until_mended(cache, later):
    path = cache / experiment(1).path
    flip_one_bit(path)
    assert run(cache).bad == run(cache).bad != []
    add(cache, experiment(1))
    assert run(cache).ok


@pytest.mark.parametrize("damage", ["", "nonsense", None])
def test_damaged_index_is_not_believed(cache, later, damage):
    run(cache)
    index = cache / INDEX_NAME
    # The last: an index that hides a stale file by one changed word.
    text = index.read_text().replace('"now"', '"old"') if damage is None else damage
    index.write_text(text)
    report = run(cache)
    assert (report.ok, report.stale, report.files_read) == (True, [], 6)
    assert run(cache).files_read == 0


def test_index_of_another_format_version_is_not_believed(cache, later, monkeypatch):
    run(cache)
    monkeypatch.setattr("hdattn.cache_index.FORMAT_VERSION", 2)
    assert run(cache).files_read == 6


def test_cache_that_cannot_be_written(cache, later, monkeypatch):
    # A chmod does not stop the superuser, so the file system's refusal is played here.
    def refuse(*arguments):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "replace", refuse)
    flip_one_bit(cache / experiment(1).path)
    report = run(cache)
    assert len(report.bad) == 1
    assert not (cache / INDEX_NAME).exists()
    with pytest.raises(UserError, match="Read-only file system"):
        set_aside([cache / experiment(1).path])
    assert not list(cache.rglob("*.bad-*"))


def test_stale_files(cache):
    old = add(cache, experiment(1), physics="before")
    gone = add(cache, Experiment("multihead/gone", {}, slug="x"))
    report = run(cache)
    assert report.ok
    assert sorted(report.stale) == sorted([old, gone])
    assert any(line.startswith(f"stale: {old}") for line in report.lines())


def test_stored_digest_counts_even_when_the_index_remembers_the_file(cache, later):
    run(cache)
    report = check(cache, physics=lambda kind, _: {KIND: "edited"}.get(kind, "now"))
    assert report.files_read == 0
    assert len(report.stale) == 5


def test_todays_code_is_the_default(cache, monkeypatch):
    monkeypatch.setattr(physics_code, "is_kind", lambda kind: kind == KIND)
    monkeypatch.setattr(physics_code, "physics_digest", lambda kind: "today")
    fresh = add(cache, experiment(1), physics="today")
    report = check(cache)
    assert fresh not in report.stale
    assert len(report.stale) == 5
    assert physics_code.current_physics("multihead/gone", "today") is None


def test_orphaned_files(cache):
    copy = cache / KIND / "my copy.h5"
    shutil.copy(cache / experiment(1).path, copy)
    assert run(cache).orphaned == [copy]
    expected = [experiment(number).path for number in range(4)] + [experiment(50).path]
    report = run(cache, expected=expected)
    others = [cache / experiment(4).path, cache / experiment(9, "multihead/sgd").path, copy]
    assert sorted(report.orphaned) == sorted(others)
    assert report.ok
    assert remove_bad(report) == []
    assert copy.exists()


def test_leftovers_of_dead_writers(cache):
    own = cache / KIND / atomic.temporary_name()
    dead = cache / KIND / re.sub(r"-\d+-(\d+)\.tmp", r"-1-\1.tmp", own.name)
    own.write_bytes(b"part")
    dead.write_bytes(b"part")
    report = run(cache)
    assert report.leftovers == [dead]
    assert report.ok
    assert remove_bad(report) == [dead]
    assert own.exists()


def test_other_files_are_none_of_its_business(cache):
    (cache / KIND / "README.md").write_text("")
    (cache / KIND / "x.h5.bad-20260101T000000").write_text("")
    report = run(cache)
    assert report.files == 6
    assert report.ok


def test_set_aside_renames_and_never_overwrites(cache, monkeypatch):
    monkeypatch.setattr(cache_check.time, "strftime", lambda form: "20260102T030405")
    path = cache / experiment(1).path
    contents, new = [], []
    for number in range(3):
        path.write_text(f"bad {number}")
        contents.append(path.read_bytes())
        new += set_aside([path])
    assert [p.name for p in new] == [
        f"{path.name}.bad-20260102T030405{suffix}" for suffix in ("", "-1", "-2")
    ]
    assert [p.read_bytes() for p in new] == contents
    assert not path.exists()
    assert run(cache).ok


def test_a_folder_is_set_aside_too(cache):
    path = cache / experiment(20).path
    (path / "mine").mkdir(parents=True)
    (new,) = set_aside([path])
    assert (new / "mine").is_dir() and not path.exists()
    assert run(cache).ok


def test_another_run_was_faster(cache):
    path = cache / experiment(1).path
    flip_one_bit(path)
    report = run(cache)
    path.unlink()
    assert set_aside([path]) == []
    assert remove_bad(report) == []
    assert not list(cache.rglob("*.bad-*"))


def test_folder_under_the_name_of_a_file(cache):
    path = cache / experiment(20).path
    path.mkdir()
    report = run(cache)
    assert report.bad == [(path, "cannot be read (Is a directory)")]
    with pytest.raises(UserError, match="cannot be removed"):
        remove_bad(report)


def test_cache_that_is_a_file(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(UserError, match="cannot be listed"):
        run(tmp_path / "cache")


def test_part_of_the_cache_on_another_disk(cache, tmp_path):
    shutil.move(cache / "singlehead", tmp_path / "disk")
    (cache / "singlehead").symlink_to(tmp_path / "disk", target_is_directory=True)
    shutil.move(cache / "multihead/sgd", tmp_path / "other disk")
    (cache / "multihead/sgd").symlink_to(tmp_path / "other disk", target_is_directory=True)
    bad = cache / experiment(1).path
    flip_one_bit(bad)
    report = run(cache)
    assert (report.files, len(report.bad), report.links) == (6, 1, [])
    assert remove_bad(report) == [bad]
    assert len(list((tmp_path / "disk").rglob("*.h5"))) == 4


def test_good_files_stay_readable_after_repair(cache):
    flip_one_bit(cache / experiment(1).path)
    report = run(cache)
    set_aside(path for path, _ in report.bad)
    for number in (0, 2, 3, 4):
        wanted = experiment(number)
        read(cache / wanted.path, kind=wanted.kind, parameters=wanted.parameters)


def test_the_check_loads_neither_numpy_nor_hdf5():
    code = (
        "import sys, hdattn.cache_check; sys.exit('numpy' in sys.modules or 'h5py' in sys.modules)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(cache_check.__file__).parents[1])}
    assert subprocess.run([sys.executable, "-c", code], env=environment).returncode == 0


def test_what_cannot_be_removed_is_told_and_the_rest_is_removed(cache):
    folder, *_ = sorted(cache.glob(f"{KIND}/*.h5"))
    bad = sorted(cache.rglob("*.h5"))[-1]
    folder.unlink()
    folder.mkdir()
    bad.write_bytes(b"")
    with pytest.raises(UserError, match=f"{re.escape(folder.name)}: cannot be removed"):
        remove_bad(run(cache))
    assert not bad.exists()
