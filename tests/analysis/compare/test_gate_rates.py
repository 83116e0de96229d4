"""How often the gate is wrong, in a hundredth of the simulation, with fixed seeds."""

from itertools import product

from sampled import sampled
from simulate_gate import MODELS, MORE, Model, rates, simulated

NOISY = "3 % run noise"  # near the tolerance: three runs can often not tell


@sampled(("model", "runs"), product(MODELS, (3, 5)), fast=2, ids=lambda value: getattr(value, "name", None))
def test_the_gate_is_hardly_ever_wrong(model: Model, runs: int) -> None:
    found = rates(model, runs, share=0.01)
    assert found["equal called slower"] < 0.02
    assert found["slower passed"] < 0.01
    assert not simulated(model, runs, 30, MORE / 2)["passed"]
    if runs == 5 and model.name != NOISY:
        assert found["slower not judged"] <= 0.1
