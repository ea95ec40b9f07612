"""The ingredients of a key: those of `pipelines.store.objects.keys`, which need no input, and those of the inputs."""

from __future__ import annotations

from typing import Any

from pipelines.context import pseudonym
from pipelines.files import canonical_json
from pipelines.graph import GRAPH
from pipelines.stage import LEFT_OUT, OVERLAY, PARTITION, REVIEWS, SOURCE
from pipelines.store.objects.keys import InputDigests, own_ingredients, source_digest
from pipelines.store.objects.session import Session


def ingredients_of(session: Session, stage_name: str, partition: str | None, inputs: InputDigests) -> dict[str, Any]:
    """Returns all ingredients of a key.

    Args:
        inputs: digests of the input stages. The function adds the pseudo-stages that the stage reads.
    """
    digests = dict(inputs)
    if GRAPH[stage_name].reads(SOURCE) and partition is not None:
        digests[SOURCE] = source_digest(session.roots.secret, session.pieces(partition))
    if GRAPH[stage_name].own_partitions:  # all its partitions read the same inputs
        digests[PARTITION] = partition
    read = GRAPH[stage_name].edges_read(session.configs)
    if any(edge.stage == REVIEWS for edge in read) and session.spec.reviews is not None:
        digests[REVIEWS] = session.spec.reviews.digest
    if any(edge.stage == OVERLAY for edge in read) and session.spec.overlay is not None:
        digests[OVERLAY] = session.spec.overlay
    if any(edge.stage == LEFT_OUT for edge in read) and session.spec.left_out:
        counted = canonical_json(dict(session.spec.left_out)).decode()
        digests[LEFT_OUT] = pseudonym(session.roots.secret, LEFT_OUT, counted)
    purpose = {"purpose": session.spec.purpose} if session.makes_unpublishable(stage_name) else {}
    return {**own_ingredients(session, stage_name), **purpose, "inputs": digests}
