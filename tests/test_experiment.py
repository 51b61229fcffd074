"""Experiments: identity and file names."""

import pytest

from hdattn.experiment import Experiment


def erm(parameters, **rest):
    return Experiment("singlehead/erm", parameters, **rest)


def test_identity_is_kind_and_parameters_only():
    one = erm({"alpha": 1, "lam": 0.1}, slug="a")
    same = erm({"lam": 0.1, "alpha": 1.0}, slug="b", inputs={"data": one})
    assert one == same
    assert len({one, same}) == 1
    assert one != erm({"alpha": 1, "lam": 0.2})
    assert one != Experiment("singlehead/amp", {"alpha": 1, "lam": 0.1})
    assert one != one.digest


def test_path_is_kind_slug_and_digest():
    experiment = erm({"alpha": 1}, slug="d60-alpha1")
    assert str(experiment.path) == f"singlehead/erm/d60-alpha1-{experiment.digest}.h5"
    assert len(experiment.digest) == 12


def test_path_length_does_not_grow_with_the_parameters():
    long = erm({"alphas": list(range(5000))})
    assert len(long.path.name) == len(erm({"alphas": [1]}).path.name)


def test_parameters_are_canonical_and_detached():
    given = {"alphas": [1.0, 2.5]}
    experiment = erm(given)
    given["alphas"].append(3)
    assert experiment.parameters_json == '{"alphas":[1,2.5]}'


def test_non_finite_parameters_are_refused():
    with pytest.raises(ValueError, match="canonical"):
        erm({"alpha": float("nan")})
