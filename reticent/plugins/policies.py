"""Names for policies. Packages offer policies under entry points of the group ``reticent.policies``.

>>> from reticent.plugins.policies import PolicyOptions, Sentence, Span
>>> class Capitals:
...     needs = frozenset()  # no annotation by spaCy
...
...     def __init__(self, options: PolicyOptions) -> None:
...         self.name = options.name
...
...     def find(self, sentence: Sentence) -> list[Span]:
...         return [Span(i, i + 1, "CAPITALS", self.name) for i, w in enumerate(sentence.tokens()) if w.isupper()]
>>> Capitals(PolicyOptions(name="capitals")).find(Sentence("ask NASA now", [0, 4, 9], [3, 8, 12]))
[Span(start_token=1, end_token=2, label='CAPITALS', policy='capitals', score=1.0)]
"""

from pipelines.policies.options import PolicyOptions
from pipelines.policies.protocol import DocumentPolicy, Policy, PolicySpec, Sentence, Span, SpeakerPolicy

__all__ = ["DocumentPolicy", "Policy", "PolicyOptions", "PolicySpec", "Sentence", "Span", "SpeakerPolicy"]
