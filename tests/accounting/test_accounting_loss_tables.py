"""Tables of privacy losses are dp-accounting's own: as long, as placed, and each mass but for rounding."""

from __future__ import annotations

import dp_accounting
import numpy as np
import pytest
from dp_accounting.pld import common, pld_pmf
from dp_accounting.pld.privacy_loss_distribution import from_gaussian_mechanism

from pipelines.accounting import loss_tables
from pipelines.accounting.events import NeighboringRelation

ADD, REPLACE = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
KINDS = {REPLACE: ["_pmf_remove"], ADD: ["_pmf_remove", "_pmf_add"]}


@pytest.mark.parametrize("relation", [ADD, REPLACE])
@pytest.mark.parametrize(
    ("rate", "noise", "interval"), [(1e-5, 0.8, 1e-3), (0.05, 0.7, 2e-3), (0.5, 4.0, 1e-3), (0.99, 1.0, 5e-3)]
)
def test_they_are_dp_accountings(relation, rate, noise, interval):
    theirs = from_gaussian_mechanism(
        noise,
        sampling_prob=rate,
        value_discretization_interval=interval,
        neighboring_relation=dp_accounting.NeighboringRelation[relation.name],
    )
    for count in (1, 300):
        composed, ours = theirs.self_compose(count), loss_tables.sampled_steps(count, rate, noise, relation, interval)
        assert ours._symmetric == composed._symmetric
        for kind in KINDS[relation]:
            expected, found = getattr(composed, kind).to_dense_pmf(), getattr(ours, kind).to_dense_pmf()
            assert vars(found).keys() == vars(expected).keys()
            for name, value in vars(expected).items():
                assert np.shape(getattr(found, name)) == np.shape(value)
                np.testing.assert_allclose(getattr(found, name), value, rtol=0, atol=1e-12, err_msg=f"{kind} {name}")


@pytest.mark.parametrize("size", [2, 40, 3000])
def test_a_composition_is_cut_where_dp_accounting_cuts_it(size):
    """Also with nearly all mass at one end, and with rows that hold none."""
    rng = np.random.default_rng(size)
    for masses in (rng.dirichlet(np.ones(size)), np.r_[1 - 1e-12, np.zeros(size), 1e-12], np.r_[1e-300, np.ones(1)]):
        for count in (1, 7, 10_000):
            expected = common.compute_self_convolve_bounds(masses, count, 1e-15)
            assert loss_tables._bounds(masses, count) == expected


def test_a_composition_is_that_of_the_table():
    masses = np.random.default_rng(0).dirichlet(np.ones(500))
    table = pld_pmf.DensePLDPmf(1e-2, -200, masses, 1e-9, pessimistic_estimate=False)
    expected, found = table.self_compose(20), loss_tables.self_composed(table, 20)
    assert {name: np.asarray(value).tolist() for name, value in vars(found).items()} == {
        name: np.asarray(value).tolist() for name, value in vars(expected).items()
    }
