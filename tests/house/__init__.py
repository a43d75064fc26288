"""The house rules as functions: each takes a tree of files and returns what breaks the rule, as `file:line: what and why`."""
