"""What counts as a copy of the answer, and what as chance."""

from __future__ import annotations

from agentgym.tasks.probes import given_away, gold_probes, hidden_probes

LINES = [f"    result = compute_something({number}, flag=True)".encode() for number in range(6)]
PATCH = b"--- a/m.py\n+++ b/m.py\n@@ -1 +1,7 @@\n-old\n" + b"".join(b"+" + line + b"\n" for line in LINES)


def test_only_lines_that_the_problem_does_not_hold_are_probes():
    groups = gold_probes(PATCH + b"+short\n", base=b"x = 1;" + LINES[0] + b" # inside a longer line")

    assert set(groups["m.py"]) == {line.strip() for line in LINES[1:]}


def test_generated_version_files_are_no_answer():
    patch = b"--- a/p/_version.py\n+++ b/p/_version.py\n@@ -1 +1 @@\n+__version_tuple__ = version_tuple = (1, 2, 3)\n"

    assert gold_probes(patch, b"") == {}


def test_half_of_a_files_new_lines_gives_it_away_and_a_third_does_not():
    groups = gold_probes(PATCH, b"")
    probes = groups["m.py"]

    assert given_away(groups, {"/a": set(probes[:3]), "/b": set(probes[:2])}) == ["/a holds 3 of 6 new lines of m.py"]


def test_a_single_new_line_is_enough_where_there_is_only_one():
    groups = hidden_probes({"t.py": LINES[0] + b"\n"}, b"")

    assert given_away(groups, {"/a": {LINES[0].strip()}, "/b": set()}) == ["/a holds 1 of 1 new lines of t.py"]
