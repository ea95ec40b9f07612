"""Draws a graph as an SVG in layers (Sugiyama, Tagawa and Toda 1981). Arrows lead down, except in cycles."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from itertools import pairwise
from typing import Final

Edge = tuple[str, str]
Chain = list[str]
"""Nodes of an edge from layer to layer: its ends, with a bend in each layer that it crosses."""

_HEIGHT: Final = 30  # of a box
_BETWEEN: Final = 34  # layers
_GAP: Final = 20  # boxes of a layer
_LETTER: Final = 7.4
_MARGIN: Final = 10
_BEND: Final = "/"  # in the name of a bend, and of no node
_ROUNDS: Final = 20
_COLOURS: Final = {"arrow": "#555", "knot": "#b3261e"}
_HEAD: Final = (
    '<marker id="{name}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
    '<path d="M0 0 8 4 0 8z" fill="{colour}"/></marker>'
)


def svg(edges: Sequence[Edge], title: str) -> str:
    """Returns the picture. The same edges give the same bytes. Edges of a cycle are red."""
    edges = sorted(set(edges))
    turned = _against_the_order(edges)
    down = [(b, a) if (a, b) in turned else (a, b) for a, b in edges]
    layers, chains = _with_bends(_layers(down), down)
    _order(layers, chains)
    places, width = _places(layers)
    height = len(layers) * (_HEIGHT + _BETWEEN) - _BETWEEN + 2 * _MARGIN
    spoken = escape(f"{title}: " + "; ".join(f"{a} to {b}" for a, b in edges), quote=True)
    heads = "".join(_HEAD.format(name=name, colour=colour) for name, colour in _COLOURS.items())
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'font-family="system-ui, sans-serif" font-size="13" role="img" aria-label="{spoken}">',
        f'<defs>{heads}</defs><rect width="{width:.0f}" height="{height}" fill="#fff"/>',
    ]
    leads_to = reached(edges)
    for (a, b), chain in zip(edges, chains, strict=True):
        points = _line([places[node] for node in chain])
        kind = "knot" if a in leads_to[b] else "arrow"
        lines.append(_arrow(points[::-1] if (a, b) in turned else points, kind))
    for node, (x, y) in sorted(places.items()):
        if _BEND not in node:
            left, across = x - _width(node) / 2, _width(node)
            lines.append(
                f'<rect x="{left:.1f}" y="{y}" width="{across:.1f}" height="{_HEIGHT}" rx="6" fill="#f3f4f6" '
                f'stroke="#9ca3af"/>'
                f'<text x="{x:.1f}" y="{y + 20}" text-anchor="middle" fill="#111">{escape(node)}</text>'
            )
    return "\n".join([*lines, "</svg>\n"])


def reached(edges: Iterable[Edge]) -> dict[str, set[str]]:
    """Returns the nodes that each node leads to, directly or through others."""
    found: dict[str, set[str]] = defaultdict(set)
    for a, b in edges:
        found[a].add(b)
    for through in list(found):  # Warshall's closure
        for others in found.values():
            if through in others:
                others |= found[through]
    return found


def _against_the_order(edges: Sequence[Edge]) -> set[Edge]:
    """Returns the edges that lead back in a depth-first walk. Without them the graph has no cycle."""
    found: set[Edge] = set()
    done: set[str] = set()

    def walk(node: str, path: tuple[str, ...]) -> None:
        for a, b in edges:
            if a == node and b in path:
                found.add((a, b))
            elif a == node and b not in done:
                walk(b, (*path, b))
        done.add(node)

    pointed_to = {b for _, b in edges}
    for node in sorted({node for edge in edges for node in edge}, key=lambda node: (node in pointed_to, node)):
        if node not in done:
            walk(node, (node,))
    return found


def _layers(down: Sequence[Edge]) -> dict[str, int]:
    """Returns the layer of each node: one below the lowest node that points to it."""
    layer = dict.fromkeys((node for edge in down for node in edge), 0)
    for _ in layer:
        for a, b in down:
            layer[b] = max(layer[b], layer[a] + 1)
    return layer


def _with_bends(layer: Mapping[str, int], down: Sequence[Edge]) -> tuple[list[list[str]], list[Chain]]:
    layers: list[list[str]] = [[] for _ in range(max(layer.values()) + 1)]
    for node in sorted(layer):
        layers[layer[node]].append(node)
    chains = []
    for a, b in down:
        bends = {at: f"{a}{_BEND}{b}{_BEND}{at}" for at in range(layer[a] + 1, layer[b])}
        for at, name in bends.items():
            layers[at].append(name)
        chains.append([a, *bends.values(), b])
    return layers, chains


def _order(layers: list[list[str]], chains: Sequence[Chain]) -> None:
    """Sorts each layer by the mean place of its nodes' neighbours, above and below in turn, and keeps the best."""
    neighbours: dict[str, tuple[list[str], list[str]]] = defaultdict(lambda: ([], []))
    for chain in chains:
        for a, b in pairwise(chain):
            neighbours[a][1].append(b)
            neighbours[b][0].append(a)
    best = [list(layer) for layer in layers]
    for number in range(_ROUNDS):
        side = number % 2
        place = {node: at / len(layer) for layer in layers for at, node in enumerate(layer)}
        for layer in layers if side == 0 else reversed(layers):
            middles = {
                node: sum(place[other] for other in neighbours[node][side]) / len(neighbours[node][side])
                if neighbours[node][side]
                else place[node]
                for node in layer
            }
            layer.sort(key=lambda node: (middles[node], node))
            place |= {node: (at + 0.5) / len(layer) for at, node in enumerate(layer)}
        if _crossings(layers, chains) < _crossings(best, chains):
            best = [list(layer) for layer in layers]
    layers[:] = best


def _crossings(layers: Sequence[Sequence[str]], chains: Sequence[Chain]) -> int:
    at = {node: number for layer in layers for number, node in enumerate(layer)}
    depth = {node: number for number, layer in enumerate(layers) for node in layer}
    steps = [(depth[a], at[a], at[b]) for chain in chains for a, b in pairwise(chain)]
    return sum(p == q and (a - c) * (b - d) < 0 for p, a, b in steps for q, c, d in steps)


def _width(node: str) -> float:
    return 6.0 if _BEND in node else _LETTER * len(node) + 20


def _places(layers: Sequence[Sequence[str]]) -> tuple[dict[str, tuple[float, int]], float]:
    """Returns the middle of each node's upper edge, and the width of the picture."""
    widths = [sum(map(_width, layer)) + _GAP * (len(layer) - 1) for layer in layers]
    whole = max(widths) + 2 * _MARGIN
    places = {}
    for number, (layer, width) in enumerate(zip(layers, widths, strict=True)):
        x = (whole - width) / 2
        for node in layer:
            places[node] = (x + _width(node) / 2, _MARGIN + number * (_HEIGHT + _BETWEEN))
            x += _width(node) + _GAP
    return places, whole


def _line(nodes: Sequence[tuple[float, int]]) -> list[tuple[float, float]]:
    """Returns points from the lower edge of the first node over the bends to the upper edge of the last."""
    (x, y), *bends, (to_x, to_y) = nodes
    through = [(bend, float(top + part)) for bend, top in bends for part in (0, _HEIGHT)]
    return [(x, float(y + _HEIGHT)), *through, (to_x, float(to_y))]


def _arrow(points: Sequence[tuple[float, float]], kind: str) -> str:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline points="{path}" fill="none" stroke="{_COLOURS[kind]}" marker-end="url(#{kind})"/>'
