"""Configuration files: merged in order, one clear line for what cannot be read."""

import pytest

from hdattn.configuration_files import merge, read_files
from hdattn.errors import UserError


@pytest.fixture
def write(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def write(name, text):
        (tmp_path / name).write_text(text, encoding="utf-8")
        return name

    return write


def test_later_files_lie_over_earlier_ones(write):
    first = write("a.yaml", "scale: default\nrank: {lam: 1, scales: {smoke: {dim: 9}}}\n")
    second = write("b.yaml", "scale: smoke\nrank: {scales: {smoke: {block: 2}, mine: {dim: 5}}}\n")
    merged, sources = read_files([first, second, write("empty.yaml", "# nothing\n")])
    assert merged == {
        "scale": "smoke",
        "rank": {"lam": 1, "scales": {"smoke": {"dim": 9, "block": 2}, "mine": {"dim": 5}}},
    }
    assert sources.name(merged, ["scale"]) == "b.yaml"
    assert sources.name(merged, ["rank", "lam"]) == "a.yaml"
    assert sources.name(merged, ["rank", "scales", "smoke", "dim"]) == "a.yaml"


def test_merging_leaves_its_arguments_alone():
    below, above = {"a": {"b": 1}}, {"a": {"c": 2}, "d": [3]}
    assert merge(below, above) == {"a": {"b": 1, "c": 2}, "d": [3]}
    assert (below, above) == ({"a": {"b": 1}}, {"a": {"c": 2}, "d": [3]})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("scale: [1, 2\n", "bad.yaml, line 2, column 1: "),
        ("a: 1\n\tb: 2\n", "bad.yaml, line 2, column 1: "),
        ("a: 1\nb: 2\na: 3\n", "bad.yaml, line 3, column 1: the key 'a' is given twice"),
        ("a: {b: 1, b: 2}\n", "bad.yaml, line 1, column 11: the key 'b' is given twice"),
        ("a: !!python/object:os.system {}\n", "bad.yaml, line 1, column 4: "),
        ("- a\n- b\n", "bad.yaml: holds no mapping"),
        ("just words\n", "bad.yaml: holds no mapping"),
        ("{[1]: 2}\n", "bad.yaml, line 1, column 2: "),
    ],
)
def test_yaml_that_will_not_do(write, text, problem):
    with pytest.raises(UserError) as caught:
        read_files([write("bad.yaml", text)])
    assert str(caught.value).startswith(problem)
    assert "\n" not in str(caught.value)


def test_every_unreadable_file_has_a_line(write, tmp_path):
    (tmp_path / "latin.yaml").write_bytes(b"name: \xe9\n")
    (tmp_path / "folder.yaml").mkdir()
    with pytest.raises(UserError) as caught:
        read_files(["none.yaml", "latin.yaml", write("good.yaml", "a: 1\n"), "folder.yaml"])
    first, second, third = str(caught.value).splitlines()
    assert first.startswith("none.yaml: no such file")
    assert second.startswith("latin.yaml: cannot be read: it is not UTF-8 text")
    assert third.startswith("folder.yaml: cannot be read: Is a directory")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("day: 2020-13-45\n", "month must be in 1..12"),
        ("[" * 5000, "nest"),
        ("1: 1\n1: 2\n", "the key 1 is given twice"),
        ("true: 1\nyes: 2\n", "the key True is given twice"),
    ],
)
def test_what_yaml_itself_does_not_catch_is_one_line(write, text, problem):
    with pytest.raises(UserError) as caught:
        read_files([write("x.yaml", text)])
    assert problem in str(caught.value) and "\n" not in str(caught.value)


def test_merge_keys_are_yaml(write):
    content, _ = read_files([write("x.yaml", "x: &x {a: 1, b: 1}\ny: {<<: *x, b: 2}\n")])
    assert content["y"] == {"a": 1, "b": 2}
