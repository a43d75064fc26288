"""burnin: turn a rack of unboxed GPU servers into nodes that can be trusted, and say with evidence which parts go back."""

__version__ = "0.1.0"
