"""The cache: what is written is read back, and what cannot be trusted is refused by name."""

import fcntl
import itertools
import os
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

from hdattn.canonical import digest
from hdattn.errors import CacheError, UserError
from hdattn.experiment import Experiment
from hdattn.hdf5 import content_digest
from hdattn.seal import FORMAT_VERSION, SEAL_SIZE, Seal
from hdattn.store import Dataset, Result, describe, read, write

KIND = "singlehead/erm"
PARAMETERS = {"alpha": [0.5, 1], "lam": 0.01, "target": {"kind": "mp", "kappa0": 0.5}}
EXPERIMENT = Experiment(KIND, PARAMETERS, slug="d60")


def sample_result(**changes):
    rng = np.random.default_rng(0)
    datasets = {
        "test_error": Dataset(
            rng.standard_normal((3, 2)), "test error", "E", ("instance", "alpha")
        ),
        "weights": Dataset(rng.standard_normal((3, 20, 20)).astype(np.float32), "weights", "W"),
        "zeros": Dataset(np.zeros((300, 50)), "all zero"),
        "large": Dataset(np.arange(400_000.0).reshape(1000, 400), "more than one chunk"),
        "counts": Dataset(np.arange(4, dtype=np.int64), "counts"),
        "flags": Dataset(np.array([True, False]), "flags"),
        "names": Dataset(np.array(["softmax", "κ₀ é", ""]), "names"),
        "no_names": Dataset(np.array([], dtype=str), "no names"),
        "empty": Dataset(np.zeros((0, 3)), "nothing"),
        "scalar": Dataset(np.float64(0.25), "one number"),
        "phase": Dataset(np.array([1j, 2.0]), "complex"),
        "gap": Dataset(np.array([1.0, np.nan]), "with a hole", allow_nan=True),
        "seconds": Dataset(np.array([0.1]), "time", timing=True),
    }
    return Result(datasets | changes, residual=1e-9, seeds={"root_seed": 7, "instances": [0, 1, 2]})


def write_sample(folder, result=None):
    path = Path(folder) / EXPERIMENT.path
    write(path, KIND, PARAMETERS, result or sample_result(), physics_digest="abc", wall_time=1.5)
    return path


@pytest.fixture
def path(tmp_path):
    return write_sample(tmp_path)


def problem(path, **request):
    with pytest.raises(CacheError) as caught:
        read(path, **request)
    assert str(path) in str(caught.value)
    assert "hdattn check --remove-bad" in str(caught.value)
    assert "\n" not in str(caught.value)
    return caught.value.problem


def test_arrays_come_back_bit_for_bit(path):
    written = sample_result().datasets
    record = read(path, kind=KIND, parameters=PARAMETERS)
    assert record.datasets.keys() == written.keys()
    for name, values in record.datasets.items():
        assert values.shape == written[name].values.shape, name
        assert values.tobytes() == written[name].values.tobytes(), name
        if values.size:
            assert values.dtype == written[name].values.dtype, name


def test_everything_else_comes_back(tmp_path):
    result = sample_result()
    result.converged = False
    result.residual = float("inf")
    result.messages = ["the damping was raised"]
    result.attributes = {"threshold": np.float64(1.25), "edges": np.array([[0.0, 2.0]])}
    record = read(write_sample(tmp_path, result))
    assert (record.kind, record.parameters) == (KIND, PARAMETERS)
    assert (record.converged, record.residual) == (False, float("inf"))
    assert record.messages == ["the damping was raised"]
    assert record.seeds == {"root_seed": 7, "instances": [0, 1, 2]}
    assert record.attributes == {"threshold": 1.25, "edges": [[0.0, 2.0]]}
    label = record.details["test_error"]
    assert (label.long_name, label.symbol) == ("test error", "E")
    assert label.axes == ("instance", "alpha")
    assert record.details["gap"].allow_nan
    assert record.details["seconds"].timing


def test_provenance(path):
    record = read(path).provenance
    assert record["format_version"] == FORMAT_VERSION
    assert record["physics_digest"] == "abc"
    assert record["wall_time"] == 1.5
    assert record["threads"] >= 1
    assert record["host"]
    assert record["library_versions"]["numpy"] == np.__version__
    assert re.fullmatch(r"([0-9a-f]{40}(-dirty)?)?", record["git_commit"])
    assert "package_version" in record


def test_any_hdf5_reader_opens_the_file(path):
    with h5py.File(path) as file:
        assert file.attrs["format_version"] == FORMAT_VERSION
        assert file.attrs["kind"] == KIND
        assert file["test_error"].fletcher32
        assert file["test_error"].attrs["long_name"] == "test error"
        assert [dimension.label for dimension in file["test_error"].dims] == ["instance", "alpha"]
        # Zeros shrink, random numbers do not.
        assert file["zeros"].compression == "gzip"
        assert file["weights"].compression is None


def test_same_arrays_same_content_digest(tmp_path):
    def stored(folder, **changes):
        return read(write_sample(tmp_path / folder, sample_result(**changes))).provenance

    first = stored("a")["content_digest"]
    assert stored("b")["content_digest"] == first
    assert stored("c", seconds=Dataset([9.0], "time", timing=True))["content_digest"] == first
    assert stored("d", counts=Dataset([0, 1, 2, 4], "counts"))["content_digest"] != first
    assert stored("e", counts=Dataset([0.0, 1, 2, 3], "counts"))["content_digest"] != first


def test_content_digest_depends_on_name_type_shape_and_bits():
    variants = [
        {"a": Dataset(np.zeros(4), "")},
        {"b": Dataset(np.zeros(4), "")},
        {"a": Dataset(np.zeros((2, 2)), "")},
        {"a": Dataset(np.zeros(4, np.float32), "")},
        {"a": Dataset(np.zeros(8, np.float32), "")},
        {"a": Dataset(-np.zeros(4), "")},
        {"a": Dataset(["x", "y"], "")},
        {"a": Dataset(["xy"], "")},
        {"a": Dataset(np.zeros(4), ""), "b": Dataset(np.zeros(0), "")},
    ]
    assert len({content_digest(variant) for variant in variants}) == len(variants)
    big_endian = {"a": Dataset(np.zeros(4).astype(">f8"), "other words")}
    assert content_digest(big_endian) == content_digest(variants[0])


def test_non_finite_values_are_refused_unless_allowed(tmp_path):
    with pytest.raises(UserError, match=r"1 of 2 values of 'bad' are not finite"):
        write_sample(tmp_path, sample_result(bad=Dataset([1.0, np.inf], "bad")))
    assert not list(tmp_path.rglob("*"))


def test_wrong_labels_and_types_are_refused():
    with pytest.raises(ValueError, match="2 axis labels for 1 dimensions"):
        Dataset([1.0], "x", axes=("a", "b"))
    with pytest.raises(TypeError, match="cannot be stored"):
        Dataset([{}], "x")


def test_result_of_another_experiment_is_not_written_under_this_name(tmp_path):
    with pytest.raises(UserError, match="not the one in this name"):
        write(
            tmp_path / EXPERIMENT.path.name,
            KIND,
            PARAMETERS | {"lam": 1},
            sample_result(),
            physics_digest="",
            wall_time=0,
        )


def test_wrong_parameters_under_a_right_name(path):
    other = PARAMETERS | {"lam": 0.02}
    wanted = Experiment(KIND, other, slug="d60")
    impostor = path.rename(path.with_name(wanted.path.name))
    assert "other parameters than its name says" in problem(impostor)


def test_other_parameters_or_kind_than_asked_for(path):
    assert "other parameters than those asked for" in problem(path, parameters={"lam": 1})
    assert "holds singlehead/erm" in problem(path, kind="singlehead/amp")


def test_parameters_are_compared_by_value(path):
    read(
        path, parameters={"target": {"kappa0": 0.5, "kind": "mp"}, "lam": 1e-2, "alpha": (0.5, 1.0)}
    )


def test_file_whose_name_carries_no_digest_is_read(path, tmp_path):
    copy = tmp_path / "copy.h5"
    copy.write_bytes(path.read_bytes())
    assert read(copy).kind == KIND


def test_missing_empty_text_and_folder(tmp_path):
    path = tmp_path / EXPERIMENT.path.name
    assert problem(path) == "there is no such file"
    path.write_bytes(b"")
    assert problem(path) == "empty"
    path.write_text("alpha,test_error\n1,0.5\n" * 100)
    assert "not an HDF5 file" in problem(path)
    path.unlink()
    path.mkdir()
    assert "cannot be read" in problem(path)


def test_foreign_hdf5(tmp_path):
    path = tmp_path / EXPERIMENT.path.name
    with h5py.File(path, "w") as file:
        file["test_error"] = np.zeros(3)
    assert "no format version" in problem(path)


def test_another_format_version(path):
    data = path.read_bytes()
    path.write_bytes(data.replace(b"format 1;", b"format 2;", 1))
    assert problem(path) == "format version 2, where this program reads version 1"


def test_edited_with_another_program(path):
    with h5py.File(path, "r+") as file:
        file["test_error"][0, 0] += 1e-3
    assert "damaged" in problem(path)


def test_every_truncation_is_found(path):
    data = path.read_bytes()
    rng = np.random.default_rng(1)
    inside_seal = range(0, SEAL_SIZE + 1, 16)
    for length in [*inside_seal, *rng.integers(SEAL_SIZE, len(data), 60), len(data) - 1]:
        path.write_bytes(data[:length])
        assert re.match("empty|truncated|not an HDF5", problem(path)), length
    path.write_bytes(data + b"\0")
    assert "too long" in problem(path)


def test_every_flipped_bit_is_found(tmp_path):
    path = write_sample(tmp_path, Result({"Q": Dataset([0.5, 1.0], "overlap")}))
    data = path.read_bytes()
    rng = np.random.default_rng(2)
    places = [*range(SEAL_SIZE), *rng.integers(SEAL_SIZE, len(data), 250)]
    for place, bit in zip(places, itertools.cycle(range(8)), strict=False):
        flipped = bytearray(data)
        flipped[place] ^= 1 << bit
        path.write_bytes(flipped)
        problem(path)
    path.write_bytes(data)
    read(path)


def reseal(path, change):
    """Change the HDF5 part and seal it anew, as a defect of the writer would."""
    bare = path.with_name("bare.h5")
    bare.write_bytes(path.read_bytes())
    with h5py.File(bare, "r+") as file:
        change(file)
    payload = bare.read_bytes()[SEAL_SIZE:]
    path.write_bytes(Seal(KIND, EXPERIMENT.digest, "abc").stamp(payload) + payload)


def set_value(name, value):
    def change(file):
        file[name][...] = value

    return change


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (set_value("counts", 1), "do not match their digest"),
        (lambda file: file.attrs.__delitem__("kind"), "cannot be read"),
        (lambda file: file.attrs.__setitem__("parameters", "{"), "cannot be read"),
        (lambda file: file.attrs.__setitem__("parameters", "{}"), "do not match its digest"),
        (lambda file: file["gap"].attrs.__setitem__("allow_nan", False), "not finite"),
        (lambda file: file["gap"].attrs.__delitem__("axes"), "cannot be read"),
        (lambda file: file.create_group("group"), "cannot be read"),
    ],
)
def test_a_sealed_file_is_verified_inside_too(path, change, expected):
    reseal(path, change)
    assert expected in problem(path)


def test_bytes_that_hdf5_cannot_read(path):
    payload = b"\x89HDF\r\n\x1a\n" + bytes(2000)
    path.write_bytes(Seal(KIND, EXPERIMENT.digest, "abc").stamp(payload) + payload)
    assert "cannot be read" in problem(path)


def test_kinds_that_do_not_fit_the_seal(tmp_path):
    for kind in ("x" * 500, "two words", "κ/step"):
        with pytest.raises(ValueError, match="does not fit the seal"):
            write(tmp_path / "x.h5", kind, {}, Result({}), physics_digest="", wall_time=0)


def test_long_parameters_and_messages(tmp_path):
    # Longer than the 64 kB that an HDF5 attribute holds in its compact form.
    parameters = {"alpha": list(np.linspace(0, 1, 20_000))}
    path = tmp_path / "long.h5"
    result = Result({}, messages=["m" * 100_000])
    write(path, KIND, parameters, result, physics_digest="", wall_time=0)
    assert read(path, parameters=parameters).messages == result.messages


def test_many_datasets(tmp_path):
    result = Result({f"x{i}": Dataset([i], "x") for i in range(300)})
    assert len(read(write_sample(tmp_path, result)).datasets) == 300


def test_locks_of_other_programs_do_not_matter(path, monkeypatch):
    # HDF5 refuses to open a file that another program has locked; reading and writing here
    # neither need nor take such locks, which some network file systems cannot give.
    monkeypatch.setenv("HDF5_USE_FILE_LOCKING", "TRUE")
    with open(path, "rb") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(OSError, match="lock"):
            h5py.File(path, "r", locking=True)
        read(path)
        write_sample(path.parents[2])


def test_describe(path):
    text = describe(path)
    for part in (KIND, "kappa0", "converged", "root_seed", "physics_digest", "[instance, alpha]"):
        assert part in text
    line = next(line for line in text.splitlines() if "test_error" in line)
    values = sample_result().datasets["test_error"].values
    assert f"{values.min():.6g} .. {values.max():.6g}" in line
    assert "3 x 2" in line
    assert "1 .. 1 (1 not finite)" in text


def test_describe_says_what_did_not_converge(tmp_path):
    result = Result({}, converged=False, residual=0.1, messages=["replicon negative"])
    text = describe(write_sample(tmp_path, result))
    assert "NOT CONVERGED, residual 0.1" in text
    assert "warning: replicon negative" in text


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_umask_decides_the_permissions(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        path = write_sample(tmp_path)
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == mode


def test_path_with_spaces_and_other_letters(tmp_path):
    path = write_sample(tmp_path / "données d'été κ₀")
    assert read(path).kind == KIND
    assert "données d'été κ₀" in describe(path)


def test_digest_in_the_seal_is_the_experiment_s(path):
    assert f"digest: {EXPERIMENT.digest}\n".encode() in path.read_bytes()[:SEAL_SIZE]
    assert digest({"kind": KIND, "parameters": PARAMETERS}) == EXPERIMENT.digest
