"""The part that small plug-in policies of tests share."""

from pipelines.policies.options import PolicyOptions


class Named:
    """A policy that needs no component of spaCy and knows its name."""

    needs = frozenset[str]()

    def __init__(self, options: PolicyOptions) -> None:
        self.name = options.name
