"""What a source says is remembered under its bytes, and only what was written is believed."""

import json

import pytest

from hdattn import source_code
from hdattn.source_code import Import

TEXT = b"import numpy as np\nfrom .prox import prox, other\n\ndef f(x):\n    'Doc.'\n    return x\n"


@pytest.fixture
def memory(tmp_path):
    return lambda: source_code._Memory(tmp_path / "memory" / "parsed.json")


def read(memory, text=TEXT):
    return memory.source(source_code._digest(text.decode()), text, None)


def test_imports_and_checksum(memory):
    source = read(memory())
    assert source.imports == (
        Import(None, 0, ("numpy",), 1),
        Import("prox", 1, ("prox", "other"), 2),
    )
    assert read(memory(), TEXT.replace(b"'Doc.'", b"# none\n    ''")).checksum == source.checksum
    assert read(memory(), TEXT.replace(b"return x", b"return -x")).checksum != source.checksum


def test_it_is_parsed_once_for_all_processes(memory, monkeypatch):
    first = memory()
    source = read(first)
    first.save()
    monkeypatch.setattr(source_code.ast, "parse", None)  # would fail
    assert read(memory()) == source
    with pytest.raises(TypeError):
        read(memory(), TEXT + b"y = 1\n")  # an edit is another source


@pytest.mark.parametrize("damage", ["flip", "empty", "foreign", "truncate"])
def test_a_damaged_memory_is_not_believed(memory, tmp_path, damage):
    first = memory()
    source = read(first)
    first.save()
    (file,) = tmp_path.glob("memory/*")
    text = file.read_text()
    other = {
        "flip": text.replace('"numpy"', '"nympy"'),
        "empty": "",
        "foreign": json.dumps({"numpy": 1}),
        "truncate": text[: len(text) // 2],
    }
    assert other[damage] != text
    file.write_text(other[damage])
    assert memory()._known == {} and read(memory()) == source


def test_where_it_cannot_be_kept_it_is_parsed_again(tmp_path):
    (tmp_path / "memory").write_text("a file where the folder would be")
    memory = source_code._Memory(tmp_path / "memory" / "parsed.json")
    source = read(memory)
    memory.save()
    assert read(source_code._Memory(tmp_path / "memory" / "parsed.json")) == source
