"""Writes are whole or absent, whoever is killed and whoever writes at the same time."""

import errno
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from hdattn import atomic
from hdattn.errors import UserError
from hdattn.seal import verify_file

SOURCES = Path(atomic.__file__).parents[1]
WRITER = """
import sys
from pathlib import Path
from hdattn.atomic import write_atomically
from hdattn.seal import Seal

folder, name, size, count = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
print("ready", flush=True)
for i in range(count):
    payload = bytes([i % 256]) * size
    file = folder / name.format(i)
    write_atomically(file, Seal("model/step", "0" * 12, name).stamp(payload), payload)
"""
STUCK_WRITER = """
import os, sys, time
from pathlib import Path
from hdattn.atomic import write_atomically

def stop(*names):
    print("ready", flush=True)
    time.sleep(600)

os.replace = stop
write_atomically(Path(sys.argv[1]) / "result.h5", b"new")
"""


def start(script, *arguments):
    """Start a script and wait until it says it is ready."""
    command = [sys.executable, "-S", "-c", script, *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(SOURCES)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, env=environment)
    assert process.stdout.readline() == b"ready\n"
    return process


def kill(process):
    process.kill()
    process.wait()
    process.stdout.close()


def temporaries(folder):
    return [path for path in folder.iterdir() if atomic.is_temporary_name(path.name)]


def test_file_appears_with_its_folders_and_nothing_else(tmp_path):
    path = tmp_path / "a b" / "é" / "x.h5"
    atomic.write_atomically(path, b"one ", b"two")
    assert path.read_bytes() == b"one two"
    assert list(path.parent.iterdir()) == [path]
    atomic.write_atomically(path, b"new")
    assert path.read_bytes() == b"new"


def test_writer_killed_before_the_rename_leaves_the_old_file_and_is_cleaned_up(tmp_path):
    path = tmp_path / "result.h5"
    path.write_bytes(b"old")
    process = start(STUCK_WRITER, tmp_path)
    (temporary,) = temporaries(tmp_path)
    # While the writer lives its file is respected, even when it looks old.
    os.utime(temporary, (0, 0))
    atomic.write_atomically(tmp_path / "other.h5", b"")
    assert temporary.exists()
    kill(process)
    assert atomic.is_leftover(temporary)
    assert path.read_bytes() == b"old"
    atomic.write_atomically(tmp_path / "other.h5", b"")
    assert not temporary.exists()


def test_writers_killed_at_random_moments_leave_only_whole_files(tmp_path):
    rng = random.Random(0)
    for kill_number in range(12):
        process = start(WRITER, tmp_path, f"{kill_number}-{{}}", 2_000_000, 10_000)
        time.sleep(rng.uniform(0, 0.05))
        process.send_signal(signal.SIGKILL)
        kill(process)
        for path in tmp_path.iterdir():
            if not atomic.is_temporary_name(path.name):
                verify_file(path)
                path.unlink()
    atomic.write_atomically(tmp_path / "last", b"")
    assert [path.name for path in tmp_path.iterdir()] == ["last"]


def test_concurrent_writers_of_one_file(tmp_path):
    path = tmp_path / "same.h5"
    writers = [start(WRITER, tmp_path, path.name, size, 150) for size in (30_000, 50_000)]
    seen = 0
    while any(writer.poll() is None for writer in writers):
        if path.exists():
            verify_file(path)
            seen += 1
    for writer in writers:
        writer.stdout.close()
    assert [writer.returncode for writer in writers] == [0, 0]
    assert seen > 10
    assert list(tmp_path.iterdir()) == [path]


def temporary_of(folder, *, host=None, pid=None, start=None):
    """A temporary file as another owner would have named it."""
    own = re.fullmatch(r"\.writing-(.+)-(\d+)-(\d+)-(\d+)\.tmp", atomic.temporary_name())
    parts = (host or own[1], pid or own[2], start or own[3])
    path = folder / ".writing-{}-{}-{}-0.tmp".format(*parts)
    path.write_bytes(b"part")
    return path


def test_name_carries_this_process():
    name = atomic.temporary_name()
    assert f"-{os.getpid()}-" in name
    assert atomic.is_temporary_name(name)
    assert name != atomic.temporary_name()


def test_own_temporary_is_no_leftover(tmp_path):
    assert not atomic.is_leftover(temporary_of(tmp_path))


def test_number_of_a_dead_process_taken_by_another(tmp_path):
    path = temporary_of(tmp_path, start="1")
    assert atomic.is_leftover(path)
    atomic.remove_leftovers(tmp_path)
    assert not path.exists()


def test_process_of_another_user_counts_as_running(tmp_path, monkeypatch):
    def refuse(pid, number):
        raise PermissionError

    monkeypatch.setattr(os, "kill", refuse)
    assert not atomic.is_leftover(temporary_of(tmp_path))


def test_other_hosts_are_judged_by_age(tmp_path):
    path = temporary_of(tmp_path, host="elsewhere", pid="1", start="1")
    assert not atomic.is_leftover(path)
    now = time.time()
    os.utime(path, (now, now - 23 * 3600))
    assert not atomic.is_leftover(path)
    os.utime(path, (now, now - 25 * 3600))
    assert atomic.is_leftover(path)
    path.unlink()
    assert not atomic.is_leftover(path)


def test_files_with_other_names_are_never_removed(tmp_path):
    others = [tmp_path / name for name in ("x.h5", ".writing-.tmp", "notes.tmp", ".verified.json")]
    for path in others:
        path.write_bytes(b"")
        os.utime(path, (0, 0))
    atomic.remove_leftovers(tmp_path)
    assert all(path.exists() for path in others)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EDQUOT])
def test_refusing_file_system(tmp_path, monkeypatch, number):
    path = tmp_path / "x.h5"
    path.write_bytes(b"old")

    def refuse(descriptor):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", refuse)
    with pytest.raises(UserError, match=re.escape(os.strerror(number))) as caught:
        atomic.write_atomically(path, b"new")
    assert str(path) in str(caught.value)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_full_disk(tmp_path, monkeypatch):
    # /dev/full accepts no byte: the write itself fails, as on a full disk.
    real = os.open
    monkeypatch.setattr(os, "open", lambda path, *rest: real("/dev/full", os.O_WRONLY))
    with pytest.raises(UserError, match="No space left on device"):
        atomic.write_atomically(tmp_path / "x.h5", b"new" * 100_000)
    assert not list(tmp_path.iterdir())


def test_folder_that_is_a_file(tmp_path):
    (tmp_path / "cache").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        atomic.write_atomically(tmp_path / "cache" / "x.h5", b"")


def test_interrupted_write_cleans_up(tmp_path, monkeypatch):
    def interrupt(*names):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupt)
    with pytest.raises(KeyboardInterrupt):
        atomic.write_atomically(tmp_path / "x.h5", b"new")
    assert not list(tmp_path.iterdir())
