"""Cells of the reproduction that tests run and judge."""

from benchmarks.reproduce.cells import Cell, Compute, Train

COMPUTED = Cell(
    paper="crt",
    place="figure6",
    name="a half",
    printed="0.2",
    unit="ε",
    measure="epsilon",
    exact=True,
    run=Compute(function="bayesian_epsilon", arguments={"epsilon_of_training": 1.0, "gamma": 0.1}),
)
TRAINED = Cell(paper="jft", place="table2", name="a", printed="27.05", run=Train(corpus="wikitext", method="no_dp"))
