"""Random streams: what they depend on, what they do not, and that they are independent."""

import itertools

import numpy as np

from hdattn.seeds import generator, seed_sequence

DATA = {"dim": 50, "target": {"kind": "mp", "kappa0": 0.5}, "noise": 0.5, "tokens": 2, "beta0": 1}


def first_draws(*key):
    return generator(*key).standard_normal(2000)


def test_same_key_same_numbers():
    assert np.array_equal(first_draws(1, DATA, 3, 0), first_draws(1, DATA, 3, 0))


def test_order_and_spelling_of_data_parameters_do_not_matter():
    respelled = {key: DATA[key] for key in reversed(DATA)} | {"dim": 50.0, "beta0": 1.0}
    assert np.array_equal(first_draws(1, DATA, 3, 0), first_draws(1, respelled, 3, 0))


def test_streams_with_different_keys_are_uncorrelated():
    keys = [
        (1, DATA, 3, 0),
        (2, DATA, 3, 0),
        (1, DATA | {"noise": 0.25}, 3, 0),
        (1, DATA, 4, 0),
        (1, DATA, 3, 1),
        (1, DATA, 3, 0, 0),
        (1, DATA, 3),
        (3, DATA, 1, 0),
    ]
    draws = [first_draws(*key) for key in keys]
    for first, second in itertools.combinations(draws, 2):
        # The correlation of n independent pairs has standard deviation 1/sqrt(n); 28 pairs of
        # streams exceed 5 of them with probability 28 * 6e-7.
        assert abs(np.corrcoef(first, second)[0, 1]) < 5 / np.sqrt(len(first))


def test_many_streams_start_differently():
    keys = itertools.product(range(3), range(20), range(20))
    words = {
        tuple(seed_sequence(root, DATA, instance, stream).generate_state(2, np.uint64))
        for root, instance, stream in keys
    }
    assert len(words) == 3 * 20 * 20


def test_numbers_are_the_same_on_every_machine():
    # Written down once; a change would change every simulation.
    state = seed_sequence(0, {"dim": 10}, 2, 1).generate_state(2, np.uint64)
    assert [hex(word) for word in state] == ["0xa60e03e14b6f2f12", "0xba463564ede2180a"]
