"""Descriptions of the training methods: what each reads, guarantees and requires in the settings. Imports no torch.

spec.py       what a description says
rule.py       which claims a method can make, and what must be recorded as met for them
view.py       which text it reads, and as what
registry.py   finds a method by name, those of other installed packages too

and a file for each method; what trains is in `pipelines.training.methods`, under the same name.
"""
