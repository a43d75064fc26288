"""The rules of judgement, one module each. A rule takes a Case and yields (where, Finding)."""
