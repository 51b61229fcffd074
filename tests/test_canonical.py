"""Canonical parameters: equal parameters give equal text, different ones different text."""

import hashlib
import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hdattn.canonical import canonical, canonical_json, digest

numbers = st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
repeatable = settings(derandomize=True, deadline=None, max_examples=80)


def as_written_otherwise(value):
    """The same value with whole numbers as floats, lists as tuples, keys in another order."""
    if isinstance(value, bool) or value is None or isinstance(value, str):
        return value
    if isinstance(value, dict):
        return {key: as_written_otherwise(value[key]) for key in reversed(list(value))}
    if isinstance(value, list):
        return tuple(as_written_otherwise(item) for item in value)
    return float(value) if isinstance(value, int) else np.float64(value)


@repeatable
@given(values)
def test_digest_does_not_depend_on_how_the_value_is_written(value):
    assert digest(value) == digest(as_written_otherwise(value))


@repeatable
@given(values)
def test_canonical_json_reads_back_as_an_equal_value(value):
    # Python's own equality has 1 == 1.0, which is the equality that digests promise.
    assert json.loads(canonical_json(value)) == value


@repeatable
@given(values, values)
def test_different_values_have_different_text(first, second):
    def is_same(a, b):
        # Python also has True == 1, which JSON tells apart.
        if isinstance(a, bool) or isinstance(b, bool):
            return a is b
        if isinstance(a, list) and isinstance(b, list):
            return len(a) == len(b) and all(map(is_same, a, b))
        if isinstance(a, dict) and isinstance(b, dict):
            return a.keys() == b.keys() and all(is_same(a[key], b[key]) for key in a)
        return a == b

    assert (canonical_json(first) == canonical_json(second)) == is_same(first, second)


def test_one_is_one_however_written():
    assert {digest({"lam": one}) for one in (1, 1.0, 1e0, np.int32(1), np.float32(1))} == {
        digest({"lam": 1})
    }
    assert digest({"lam": True}) != digest({"lam": 1})
    assert digest({"lam": "1"}) != digest({"lam": 1})


def test_digest_is_the_same_on_every_machine():
    # The text is written down: a change of it would rename every file of every cache.
    text = b'{"alpha":[0.5,1],"target":{"kappa0":0.5,"kind":"mp"}}'
    parameters = {"target": {"kind": "mp", "kappa0": 0.5}, "alpha": [0.5, 1.0]}
    assert digest(parameters) == hashlib.sha256(text).hexdigest()[:12]


def test_arrays_are_lists():
    assert canonical(np.array([[1.0, 2.5]])) == [[1, 2.5]]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float32("nan")])
def test_non_finite_numbers_are_refused(value):
    with pytest.raises(ValueError, match="no canonical JSON form"):
        canonical_json({"lam": value})


def test_what_json_cannot_hold_is_refused():
    with pytest.raises(TypeError, match="set has no canonical JSON form"):
        canonical_json({"lam": {1, 2}})
