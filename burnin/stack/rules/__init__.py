"""The rules a stack is checked by, one module each: `judge` takes a Case and yields problems."""
