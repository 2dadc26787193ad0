"""Graphs as {node: [neighbours]}."""

from collections import deque


def shortest(graph, start, goal):
    """The shortest path as a list of nodes, None where there is none."""
    previous = {start: None}
    queue = deque([start])
    while queue:
        node = queue.popleft()
        if node == goal:
            path = []
            while node is not None:
                path.append(node)
                node = previous[node]
            return path[::-1]
        for neighbour in graph.get(node, []):
            if neighbour not in previous:
                previous[neighbour] = node
                queue.append(neighbour)
    return None


def reachable(graph, start):
    seen = {start}
    todo = [start]
    while todo:
        for neighbour in graph.get(todo.pop(), []):
            if neighbour not in seen:
                seen.add(neighbour)
                todo.append(neighbour)
    return seen


def order(graph):
    """Nodes so that each comes before its neighbours; ValueError for a cycle."""
    incoming = {node: 0 for node in graph}
    for neighbours in graph.values():
        for neighbour in neighbours:
            incoming[neighbour] = incoming.get(neighbour, 0) + 1
    ready = sorted(node for node, count in incoming.items() if count == 0)
    out = []
    while ready:
        node = ready.pop(0)
        out.append(node)
        for neighbour in graph.get(node, []):
            incoming[neighbour] -= 1
            if incoming[neighbour] == 0:
                ready.append(neighbour)
    if len(out) != len(incoming):
        raise ValueError("there is a cycle")
    return out
