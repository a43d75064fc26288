"""Drift: what a node has, held against what its stack comes to. `judging.judge` for one node, `fleet.minorities` for many."""
