"""A SLURM of one node with accounting on this machine, from the distribution's packages.

``python tests/slurm/cluster.py start`` installs what is missing and starts munge, MariaDB,
slurmdbd, slurmctld and slurmd as plain processes (no systemd, no cgroups); ``stop`` ends those and
no others.
Needs root and apt; :func:`why_not` says what is missing.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

STATE = Path("/var/tmp/hdattn-slurm")
SYSTEM_CONFIGURATION = Path("/etc/slurm/slurm.conf")  # job steps lose SLURM_CONF and look here
MUNGE_SOCKET = Path("/run/munge/munge.socket.2")  # sacct looks for no other
ACCOUNT, PARTITION, LONG_PARTITION = "physics", "short", "long"
PACKAGES = ("slurm-wlm", "slurm-client", "slurmdbd", "munge", "mariadb-server")
PROGRAMS = ("slurmctld", "slurmd", "slurmdbd", "munged", "mariadbd", "sacctmgr", "sacct", "sbatch")
DAEMONS = ("slurmd", "slurmctld", "slurmdbd", "mariadbd", "munged")  # in the order they are stopped
HOST = socket.gethostname().partition(".")[0]

SLURM_CONF = """\
ClusterName=hdattn
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort=26817
SlurmdPort=26818
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
StateSaveLocation={state}/slurmctld
SlurmdSpoolDir={state}/slurmd
SlurmctldPidFile={state}/slurmctld.pid
SlurmdPidFile={state}/slurmd.pid
SlurmctldLogFile={state}/slurmctld.log
SlurmdLogFile={state}/slurmd.log
SwitchType=switch/none
MpiDefault=none
LaunchParameters=disable_send_gids
# Without cgroups: processes are followed through /proc, and memory is looked at every second.
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=task=1
JobAcctGatherParams=OverMemoryKill
KillWait=2
ReturnToService=2
# As on real sites: finished jobs are forgotten after five minutes.
MinJobAge=300
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1,batch_sched_delay=0
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=500
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=26819
# A job without a valid account is refused.
AccountingStorageEnforce=associations
AccountingStoreFlags=job_comment
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} RealMemory={memory} State=UNKNOWN
PartitionName={short} Nodes={host} Default=YES MaxTime=02:00:00 State=UP
PartitionName={long} Nodes={host} Default=NO MaxTime=1-00:00:00 State=UP
"""

SLURMDBD_CONF = """\
AuthType=auth/munge
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort=26819
SlurmUser=root
LogFile={state}/slurmdbd.log
PidFile={state}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounting
"""


def why_not() -> str | None:
    """Why no SLURM can be started here, or None."""
    if os.geteuid() != 0:
        return "only root can start the daemons of a SLURM"
    configured = SYSTEM_CONFIGURATION.exists() or SYSTEM_CONFIGURATION.is_symlink()
    if configured and SYSTEM_CONFIGURATION.resolve() != STATE / "slurm.conf":
        return f"this machine has a SLURM of its own ({SYSTEM_CONFIGURATION})"
    if _listening(MUNGE_SOCKET) and not _alive("munged"):
        return f"this machine has a munge of its own ({MUNGE_SOCKET})"
    if missing() and not shutil.which("apt-get"):
        return f"no {', '.join(missing())} and no apt-get to install them"
    return None


def missing() -> list[str]:
    """Programs that are not installed."""
    return [name for name in PROGRAMS if not shutil.which(name)]


def start() -> None:
    """Install and start everything that is not there yet; returns when jobs can run."""
    if missing():
        _install()
    STATE.mkdir(parents=True, exist_ok=True)
    for name in ("slurmctld", "slurmd"):
        (STATE / name).mkdir(exist_ok=True)
    _start_munge()
    _write_configuration()
    _start_accounting()
    start_controller()
    if not _alive("slurmd"):
        _call("slurmd", "-N", HOST)
    ready = {"idle", "mixed", "allocated"}
    _wait(lambda: ready & set(_output("sinfo", "--noheader", "--format=%T").split()), "a node")


def start_controller() -> None:
    """Start slurmctld unless it runs; returns when it answers."""
    if not _alive("slurmctld"):
        _call("slurmctld")
    _wait(lambda: "is UP" in _output("scontrol", "ping"), "slurmctld")


def stop(*names: str) -> None:
    """Stop the daemons ``names``, by default all, that :func:`start` started."""
    for name in names or DAEMONS:
        if not _alive(name):
            continue
        process = _process(name)
        os.kill(process, signal.SIGTERM)
        _wait(lambda name=name: not _alive(name), f"the end of {name}")
    if not names and SYSTEM_CONFIGURATION.is_symlink():
        SYSTEM_CONFIGURATION.unlink()


def _install() -> None:
    # Packages start their services on installation unless this file forbids it.
    policy = Path("/usr/sbin/policy-rc.d")
    ours = not policy.exists()
    if ours:
        policy.write_text("#!/bin/sh\nexit 101\n")
        policy.chmod(0o755)
    try:
        apt = ("apt-get", "--quiet", "--quiet")
        environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for arguments in (("update",), ("install", "--yes", "--no-install-recommends", *PACKAGES)):
            subprocess.run(
                [*apt, *arguments], check=True, stdout=subprocess.DEVNULL, env=environment
            )
    finally:
        if ours:
            policy.unlink()


def _start_munge() -> None:
    folder = STATE / "munge"
    for path in (folder, MUNGE_SOCKET.parent):
        path.mkdir(mode=0o755, parents=True, exist_ok=True)
        shutil.chown(path, "munge", "munge")
    key = folder / "key"
    if not key.exists():
        key.touch(mode=0o400)
        key.write_bytes(secrets.token_bytes(1024))
        shutil.chown(key, "munge", "munge")
    if _alive("munged"):
        return
    MUNGE_SOCKET.unlink(missing_ok=True)
    options = {"key-file": key, "pid-file": folder / "munged.pid", "log-file": folder / "log"}
    options |= {"seed-file": folder / "seed", "socket": MUNGE_SOCKET}
    command = ["munged", *(f"--{name}={value}" for name, value in options.items())]
    subprocess.run(command, check=True, user="munge", group="munge", extra_groups=[])
    _wait(MUNGE_SOCKET.exists, "munged")


def _write_configuration() -> None:
    pages, page_size = os.sysconf("SC_PHYS_PAGES"), os.sysconf("SC_PAGE_SIZE")
    values = {"state": STATE, "host": HOST, "cpus": os.cpu_count(), "short": PARTITION}
    values |= {"long": LONG_PARTITION, "memory": int(0.9 * pages * page_size / 2**20)}
    (STATE / "slurm.conf").write_text(SLURM_CONF.format(**values))
    database = STATE / "slurmdbd.conf"
    database.touch(mode=0o600)
    database.write_text(SLURMDBD_CONF.format(**values))
    SYSTEM_CONFIGURATION.parent.mkdir(exist_ok=True)
    if not SYSTEM_CONFIGURATION.is_symlink():
        SYSTEM_CONFIGURATION.symlink_to(STATE / "slurm.conf")
    os.environ["SLURM_CONF"] = str(STATE / "slurm.conf")  # where slurmdbd.conf is looked for too


def _start_accounting() -> None:
    folder = STATE / "mysql"
    if not (folder / "mysql").exists():
        folder.mkdir(exist_ok=True)
        shutil.chown(folder, "mysql", "mysql")
        _call("mariadb-install-db", "--user=mysql", f"--datadir={folder}", "--skip-test-db")
    server = folder / "server.socket"
    if not _alive("mariadbd"):
        process = subprocess.Popen(
            [
                *("mariadbd", "--no-defaults", "--user=mysql", f"--datadir={folder}"),
                *(f"--socket={server}", "--skip-networking", "--innodb-lock-wait-timeout=900"),
                f"--log-error={folder}/server.log",
            ],
            start_new_session=True,
            stderr=subprocess.DEVNULL,  # the log has it
        )
        (STATE / "mariadbd.pid").write_text(str(process.pid))
    query = ("mariadb", "--no-defaults", f"--socket={server}", "--execute")
    _wait(lambda: _succeeds(*query, "select 1"), "MariaDB")
    _call(*query, "create database if not exists accounting")
    if not _alive("slurmdbd"):
        _call("slurmdbd", MYSQL_UNIX_PORT=str(server))
    listing = ("sacctmgr", "--noheader", "--parsable2", "list")
    _wait(lambda: _succeeds(*listing, "cluster"), "slurmdbd")
    add = ("sacctmgr", "--immediate", "--quiet", "add")
    if "hdattn" not in _output(*listing, "cluster", "format=cluster").split():
        _call(*add, "cluster", "hdattn")
    if ACCOUNT not in _output(*listing, "account", "format=account").split():
        _call(*add, "account", ACCOUNT, "Cluster=hdattn")
        _call(*add, "user", "root", f"Account={ACCOUNT}")


def _process(name: str) -> int | None:
    folder = STATE / "munge" if name == "munged" else STATE
    try:
        return int((folder / f"{name}.pid").read_text())
    except (OSError, ValueError):
        return None


def _alive(name: str) -> bool:
    process = _process(name)
    try:
        # A number may belong to another program by now.
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return False
    return name.encode() in command


def _listening(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0


def _call(*command: str, **environment: str) -> None:
    subprocess.run(
        command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, **environment}
    )


def _succeeds(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def _output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _wait(condition, what: str, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError(f"{what}: not there after {seconds:.0f} s; logs in {STATE}")
        time.sleep(0.2)


if __name__ == "__main__":
    actions = {"start": start, "stop": stop}
    if sys.argv[1:] not in ([name] for name in actions):
        sys.exit(f"usage: {sys.argv[0]} start|stop")
    reason = why_not()
    sys.exit(reason or actions[sys.argv[1]]())
