"""The pinned stack, pure: one file in; checked against the compat matrix; resolved to packages, pins, repositories and services."""
